// node run.mjs FOLDER PACKAGES MOUNTS SCRIPT ARGUMENTS...: run a Python script in Pyodide from these
// files. PACKAGES are names of its lock; MOUNTS are folders of this machine by their place there: JSON.
const [folder, packages, mounts, script, ...rest] = process.argv.slice(2);
const { loadPyodide } = await import(`${folder}/pyodide.mjs`);
const env = { HOME: "/tmp", PYTHONHASHSEED: "0", PYTHONDONTWRITEBYTECODE: "1" };
try {
  const python = await loadPyodide({ indexURL: `${folder}/`, env });
  const quiet = { messageCallback: () => {} };
  await python.loadPackage(JSON.parse(packages), quiet);
  for (const [place, root] of Object.entries(JSON.parse(mounts))) {
    python.FS.mkdirTree(place);
    python.FS.mount(python.FS.filesystems.NODEFS, { root }, place);
  }
  python.globals.set("given", python.toPy({ script, rest, places: Object.keys(JSON.parse(mounts)) }));
  process.exitCode = python.runPython(`
import os, runpy, sys
sys.path[:0] = given["places"]
sys.argv = [given["script"], *given["rest"]]
os.chdir(given["places"][0])
code = 0
try:
    runpy.run_path(given["script"], run_name="__main__")
except SystemExit as left:
    code = int(left.code or 0)
code`);
} catch (error) {  // not the line of code, which has a megabyte
  console.error(String(error.message ?? error).slice(-4000));
  process.exitCode = 70;
}
