// The worker of run_here.js: Python from the folder of the book, one shell (tools/site/shell.py).
"use strict";

const SITE = "/lib/python3.12/site-packages";
let shell;

async function start({ files }) {
  const say = (text) => postMessage({ say: text });
  const get = async (name) => {
    const answer = await fetch(files + name);
    if (!answer.ok) throw Error(`${name}: ${answer.status}`);
    return answer;
  };
  importScripts(`${files}pyodide.js`);
  say("Python is loading");
  const { info, packages } = await (await get("pyodide-lock.json")).json();
  const { openblas, ...others } = packages; // shared; the others are compiled when they are imported
  const arriving = Object.values(others).map(async ({ file_name: name }) => [name, await (await get(name)).arrayBuffer()]);
  const [python, ...archives] = await Promise.all([
    loadPyodide({ indexURL: files, stdLibURL: files + info.library }), ...arriving]);
  await python.loadPackage("openblas", { messageCallback: () => {}, errorCallback: (text) => { throw Error(text); } });
  say("Python is starting");
  for (const [name, content] of archives) python.unpackArchive(content, name.split(".").pop(), { extractDir: SITE });
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
    const said = String(error.message ?? error).slice(0, 300);
    postMessage({ id, error: act === "start" ? `Python did not arrive: is there a network? (${said})` : said });
  }
};
