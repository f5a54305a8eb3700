// Check, Hint and Reset at each exercise of a lesson, and Run at each folded cell.
//
// JupyterLab loads this file as a prebuilt extension: a container with `init` and `get`, as webpack's module federation makes
// one. It is written by hand, so there is nothing to build. Shared modules such as @jupyterlab/notebook come from JupyterLab.
(() => {
  "use strict";

  const NAME = "attn-exercises";
  const CHECK = /^\s*check\("(\w+)"\)/;
  const STYLE = `
    .attn-buttons { display: flex; flex-wrap: wrap; gap: 8px; padding: 4px 0 4px calc(var(--jp-cell-prompt-width) + 13px); }
    .attn-buttons button {
      min-height: 28px; padding: 2px 12px; cursor: pointer; font: var(--jp-ui-font-size1) var(--jp-ui-font-family);
      color: var(--jp-ui-font-color1); background: var(--jp-layout-color1);
      border: var(--jp-border-width) solid var(--jp-border-color0); border-radius: var(--jp-border-radius);
    }
    .attn-buttons button:hover { background: var(--jp-layout-color2); }
    .attn-buttons button:focus-visible { outline: 2px solid var(--jp-brand-color1); outline-offset: 1px; }
    .attn-buttons button:disabled { opacity: 0.6; cursor: default; }`;

  let scope;

  /** A module that JupyterLab shares with its extensions. */
  async function shared(name) {
    const [version] = Object.values(scope[name]);
    return (await version.get())();
  }

  /** What a cell's metadata say about it. The cell that installs the course counts as given. */
  function role(cell) {
    const { grade = false, solution = false, locked = false, grade_id: id = "" } = cell.model.getMetadata("nbgrader") ?? {};
    const installs = (cell.model.getMetadata("tags") ?? []).includes("install");
    return { id, answer: solution, check: grade && !solution, given: installs || (locked && !grade && !solution) };
  }

  /** The exercise that a cell checks, or undefined. */
  const checked = (cell) => (role(cell).check ? CHECK.exec(cell.model.sharedModel.getSource())?.[1] : undefined);

  /** The messages that `code` sends while the kernel runs it, without a trace in the notebook's history. */
  async function ask(panel, code) {
    const kernel = panel.sessionContext.session?.kernel;
    if (!kernel) throw new Error("The notebook has no kernel. Choose Kernel → Restart Kernel and try again.");
    const said = [];
    const future = kernel.requestExecute({ code, store_history: false });
    future.onIOPub = (message) => {
      const type = message.header.msg_type;
      if (["stream", "display_data", "execute_result", "error"].includes(type)) {
        const { transient, execution_count, ...content } = message.content; // a result without a number is a display
        said.push({ output_type: type === "execute_result" ? "display_data" : type, ...content });
      }
    };
    await future.done;
    return said;
  }

  const text = (said) => said.filter((each) => each.output_type === "stream").map((each) => each.text).join("");

  function plugin({ INotebookTracker, NotebookActions }, { Dialog, showDialog, showErrorMessage }) {
    const run = (panel, cells) => NotebookActions.runCells(panel.content, cells, panel.sessionContext);
    const answer = (panel, name) => panel.content.widgets.find((cell) => role(cell).answer && role(cell).id === name);

    /** Run the answer and its check, after the given cells above where a fresh kernel does not know them yet. */
    async function check(panel, cell, name) {
      const known = text(await ask(panel, `print("check" in globals())`)).includes("True");
      const above = panel.content.widgets.slice(0, panel.content.widgets.indexOf(cell));
      const given = known ? [] : above.filter((each) => each.model.type === "code" && role(each).given);
      await run(panel, [...new Set([...given, answer(panel, name), cell])].filter(Boolean));
    }

    /** Show the next hint below what the check has said. */
    async function hint(panel, cell, name) {
      for (const output of await ask(panel, `__import__("autograder").hint("${name}")`)) cell.outputArea.model.add(output);
    }

    /** Put the released text back into the answer cell, once the learner agrees. */
    async function reset(panel, name) {
      const cell = answer(panel, name);
      if (!cell) throw new Error(`This notebook has no answer cell for ${name}. In a terminal, attn reset brings it back.`);
      const agreed = await showDialog({
        title: `Reset ${name}?`,
        body: "The cell gets the text that it was released with. Click into it and press Ctrl+Z to undo this.",
        buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: "Reset" })],
      });
      if (!agreed.button.accept) return;
      const said = await ask(panel, `__import__("autograder.workspace.in_cells.released", fromlist=["show"]).show("${name}")`);
      const failed = said.find((each) => each.output_type === "error");
      if (failed) throw new Error(failed.evalue);
      cell.model.sharedModel.setSource(JSON.parse(text(said)));
    }

    function button(label, about, work) {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = label;
      made.setAttribute("aria-label", `${label} ${about}`);
      made.addEventListener("click", async () => {
        made.disabled = true;
        try {
          await work();
        } catch (error) {
          await showErrorMessage(`${label} ${about}`, error);
        } finally {
          made.disabled = false;
        }
      });
      return made;
    }

    function row(cell, buttons) {
      const made = document.createElement("div");
      made.className = "attn-buttons";
      made.dataset.lmSuppressShortcuts = "true"; // Enter presses the button, and does not edit the cell
      made.append(...buttons);
      cell.node.querySelector(":scope > .jp-Cell-inputWrapper").after(made);
    }

    async function decorate(panel, cell) {
      await cell.ready;
      if (cell.isDisposed || cell.model.type !== "code" || cell.node.querySelector(":scope > .attn-buttons")) return;
      const name = checked(cell);
      if (name) {
        row(cell, [
          button("Check", name, () => check(panel, cell, name)),
          button("Hint", name, () => hint(panel, cell, name)),
          button("Reset", name, () => reset(panel, name)),
        ]);
      } else if (cell.inputHidden && !role(cell).answer) {
        row(cell, [button("Run", "the folded cell", () => run(panel, [cell]))]);
      }
    }

    async function watch(panel) {
      await panel.context.ready;
      const all = () => {
        const cells = panel.content.widgets;
        if (cells.some(checked)) cells.forEach((cell) => decorate(panel, cell)); // other people's notebooks stay as they are
      };
      panel.content.model.cells.changed.connect(all);
      all();
    }

    return {
      id: `${NAME}:plugin`,
      description: "Buttons at the exercises of a lesson.",
      autoStart: true,
      requires: [INotebookTracker],
      activate: (_, tracker) => {
        document.head.append(Object.assign(document.createElement("style"), { textContent: STYLE }));
        tracker.widgetAdded.connect((_, panel) => void watch(panel));
        tracker.forEach((panel) => void watch(panel));
      },
    };
  }

  window._JUPYTERLAB = window._JUPYTERLAB ?? {};
  window._JUPYTERLAB[NAME] = {
    init: (given) => {
      scope = given;
    },
    get: async () => {
      const made = plugin(await shared("@jupyterlab/notebook"), await shared("@jupyterlab/apputils"));
      return () => ({ __esModule: true, default: made });
    },
  };
})();
