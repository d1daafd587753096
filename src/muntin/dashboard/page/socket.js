// The socket: frames in, questions out; it comes back by itself after the server was away.

const TYPES = { f8: Float64Array, i4: Int32Array, u1: Uint8Array };

export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  let at = 4 + length;
  at += (8 - (at % 8)) % 8;
  for (const [name, kind, count] of header.arrays) {
    arrays[name] = new TYPES[kind](buffer, at, count);
    at += arrays[name].byteLength;
    at += (8 - (at % 8)) % 8;
  }
  return { header, arrays };
}

export class Connection {
  constructor(handlers, stream) {
    this.handlers = handlers; // by type of frame, and `status`
    this.stream = stream; // its name; null for the first one
    this.waiting = new Map(); // questions by number
    this.asked = 0;
    this.tries = 0;
    this.open();
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const chosen = this.stream === null ? "" : `?stream=${encodeURIComponent(this.stream)}`;
    this.socket = new WebSocket(`${scheme}://${location.host}/live${chosen}`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => { this.tries = 0; };
    this.socket.onmessage = (event) => this.take(decode(event.data));
    this.socket.onclose = () => this.closed();
  }

  closed() {
    this.handlers.status("reconnecting");
    for (const { reject } of this.waiting.values()) reject(new Error("The connection was lost."));
    this.waiting.clear();
    const pause = Math.min(5000, 250 * 2 ** this.tries++);
    setTimeout(() => this.open(), pause);
  }

  take({ header, arrays }) {
    if (header.type === "update") this.say({ type: "read", n: header.n });
    const question = this.waiting.get(header.id);
    if (question) {
      if (header.type === "error") {
        this.waiting.delete(header.id);
        question.reject(new Error(header.message));
      } else if (question.partial && !header.last) {
        question.partial(header, arrays);
      } else {
        this.waiting.delete(header.id);
        question.resolve({ header, arrays });
      }
    } else if (this.handlers[header.type]) {
      this.handlers[header.type](header, arrays);
    }
  }

  say(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  // Ask, and be told; `partial` gets what comes before the last word.
  ask(message, partial = null) {
    const id = ++this.asked;
    return new Promise((resolve, reject) => {
      if (this.socket.readyState !== WebSocket.OPEN) {
        reject(new Error("There is no connection."));
        return;
      }
      this.waiting.set(id, { resolve, reject, partial });
      this.say({ ...message, id });
    });
  }
}
