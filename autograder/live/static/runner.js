// One Python for the page: started when it is first needed, ended when an answer never returns.
const DEADLINE = 20_000; // ms for one check; the engine itself stops most loops after 5 s of an exercise's own time

export class TimeoutError extends Error {}

export class Runner {
  #config;
  #worker = null;
  #ready = null;
  #asked = new Map();
  #timer = null;
  #number = 0;

  /** `config`: absolute addresses of Pyodide, of the site's files, and the bundle's name. `onStage(text)` follows the start. */
  constructor(config, onStage) {
    this.#config = config;
    this.onStage = onStage;
  }

  /** Start Python, or wait for the start that is under way. */
  start() {
    if (this.#ready) return this.#ready;
    this.#ready = new Promise((resolve, reject) => {
      const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
      this.#worker = worker;
      worker.onmessage = ({ data }) => {
        if (data.kind === "stage") this.onStage(data.text);
        else if (data.kind === "ready") resolve(this.onStage(""));
        else if (data.kind === "running") this.#watch();
        else if (data.kind === "pause") clearTimeout(this.#timer);
        else if (data.kind === "failed") this.#end(new Error(data.text), reject);
        else if (data.kind === "checked") {
          clearTimeout(this.#timer);
          this.#asked.get(data.id)?.resolve(data.result);
          this.#asked.delete(data.id);
        }
      };
      worker.onerror = (event) => this.#end(new Error(event.message || "the worker did not start"), reject);
      worker.postMessage({ kind: "start", ...this.#config });
    });
    this.#ready.catch(() => {}); // whoever waits for it is told; nobody else needs to be
    return this.#ready;
  }

  /** Check an exercise; resolves to what session.py returns. Rejects with a TimeoutError where the answer never returns. */
  async check(question) {
    await this.start();
    const id = ++this.#number;
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject });
      this.#worker.postMessage({ kind: "check", id, ...question });
    });
  }

  /** End what runs now. The next check starts Python anew, from the browser's cache. */
  stop(error = new TimeoutError("stopped")) {
    this.#end(error);
  }

  #watch() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.stop(new TimeoutError(`${DEADLINE / 1000} seconds`)), DEADLINE);
  }

  #end(error, reject = () => {}) {
    clearTimeout(this.#timer);
    this.#worker?.terminate();
    this.#worker = this.#ready = null;
    this.onStage("");
    reject(error);
    for (const asked of this.#asked.values()) asked.reject(error);
    this.#asked.clear();
  }
}
