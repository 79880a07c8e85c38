// The worker of run_here.js: Python from the folder of the book, one shell (tools/site/shell.py).
"use strict";

let shell;

async function start({ files }) {
  importScripts(`${files}pyodide.js`);
  const say = (text) => postMessage({ say: text });
  say("Python is loading");
  const python = await loadPyodide({ indexURL: files });
  await python.loadPackage("fedclust", { messageCallback: () => {}, errorCallback: (text) => { throw Error(text); } });
  say("Python is starting");
  shell = python.pyimport("tools.site.shell");
  shell.start();
  return {};
}

const acts = {
  start,
  run: ({ code }) => JSON.parse(shell.run(code)),
  move: ({ control, at }) => JSON.parse(shell.move(control, at)),
};

onmessage = async ({ data: { id, act, ...given } }) => {
  try {
    postMessage({ id, found: await acts[act](given) });
  } catch (error) {
    postMessage({ id, error: String(error.message ?? error).slice(0, 300) });
  }
};
