"""Windows over positions of a key's records: counts, and stretches that the records themselves mark off."""
