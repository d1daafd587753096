"""What all programs of ours share: mistakes told in one sentence, and a terminal that stays in order."""
