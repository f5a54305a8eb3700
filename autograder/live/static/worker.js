// Runs Python away from the page, so that the page stays responsive and can end an endless loop by ending this worker.
// Messages in: {kind: "start", ...} once, then {kind: "check", id, lesson, pack, exercise, answers},
// or with cell and source in place of exercise, to run a given cell that a reader has changed.
// Messages out: {kind: "stage", text}, {kind: "ready"}, {kind: "failed", text}, {kind: "checked", id, result}.
let python;
let files;
let packages; // where installed packages are: the engine leaves them out when it looks for a reader's own lines
const known = new Set(); // the lessons whose files are in Python's file system

const say = (text) => postMessage({ kind: "stage", text });

async function bytes(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status} ${answer.statusText}`);
  return new Uint8Array(await answer.arrayBuffer());
}

async function start({ pyodide, files: place, bundle }) {
  files = place;
  say("Loading Python (about 10 MB, once)…");
  const engine = bytes(`${files}${bundle}`); // at the same time as the runtime
  const { loadPyodide } = await import(`${pyodide}pyodide.mjs`);
  python = await loadPyodide({ indexURL: pyodide });
  say("Loading NumPy…");
  await python.loadPackage("numpy", { messageCallback: () => {} });
  say("Loading the checks…");
  packages = python.runPython("import sysconfig; sysconfig.get_paths()['purelib']");
  python.unpackArchive(await engine, "zip", { extractDir: packages });
  python.runPython("import importlib; importlib.invalidate_caches()");
  python.runPython("import os; os.environ['MPLBACKEND'] = 'agg'"); // the worker has no page to draw on
  python.runPython("import json; from pathlib import Path; import autograder.live.session as session");
  postMessage({ kind: "ready" });
}

async function fetchLesson(lesson, pack) {
  if (known.has(lesson)) return;
  const folder = `/lessons/${lesson}`;
  python.FS.mkdirTree(folder);
  for (const name of [`${lesson}.ipynb`, pack]) {
    python.FS.writeFile(`${folder}/${name}`, await bytes(`${files}lessons/${lesson}/${name}`));
  }
  known.add(lesson);
}

/** What given cells need and answers do not: arrays beside the course's modules, and packages that draw. */
async function fetchData() {
  if (known.has("data.zip")) return;
  python.unpackArchive(await bytes(`${files}data.zip`), "zip", { extractDir: packages });
  python.runPython("import importlib; importlib.invalidate_caches()");
  known.add("data.zip");
}

const CHECK = "session.check(folder, q['exercise'], q['answers'])";
const RUN = "session.run(folder, q['cell'], q['source'], q['answers'])";

async function check({ id, lesson, pack, exercise, cell, source, answers }) {
  await fetchLesson(lesson, pack);
  if (cell) await fetchData();
  postMessage({ kind: "running", id }); // from here on the page's deadline counts
  python.globals.set("asked", JSON.stringify({ lesson, exercise, cell, source, answers }));
  const ask = () =>
    JSON.parse(
      python.runPython(`q = json.loads(asked); folder = Path('/lessons') / q['lesson']; json.dumps(${cell ? RUN : CHECK})`),
    );
  let result = ask();
  if (result.needs && (await load(result.needs))) result = ask();
  postMessage({ kind: "checked", id, result });
}

/** Load a module that an answer imports, where Pyodide has it. */
async function load(name) {
  const before = Object.keys(python.loadedPackages).length;
  postMessage({ kind: "pause" }); // a download is no endless loop
  await python.loadPackagesFromImports(`import ${name}`, { messageCallback: () => {} }).catch(() => {});
  postMessage({ kind: "running" });
  return Object.keys(python.loadedPackages).length > before;
}

let queue = Promise.resolve(); // one message after the other
onmessage = ({ data }) => {
  queue = queue.then(() => (data.kind === "start" ? start(data) : check(data))).catch((error) => {
    postMessage({ kind: "failed", text: String(error.message || error).slice(-2000) });
  });
};
