// The released notebook: its answer cells, and a copy with a reader's answers in them.
const answerName = (cell) => (cell.metadata.nbgrader?.solution ? cell.metadata.nbgrader.grade_id : null);

export const text = (source) => (Array.isArray(source) ? source.join("") : source);

/** The source of each answer cell as released, by exercise, in the notebook's order. */
export function stubs(notebook) {
  return Object.fromEntries(
    notebook.cells.filter(answerName).map((cell) => [answerName(cell), text(cell.source)]),
  );
}

/** The source of each given code cell as released, by the name that the page has for it. */
export function given(notebook) {
  const cells = notebook.cells.filter((cell) => cell.cell_type === "code" && !answerName(cell));
  return Object.fromEntries(cells.map((cell) => [cell.metadata.nbgrader?.grade_id ?? cell.id, text(cell.source)]));
}

/** The notebook with `answers` in its answer cells; everything else stays as released, so `attn update` knows it again. */
export function withAnswers(notebook, answers) {
  const cells = notebook.cells.map((cell) => {
    const answer = answers[answerName(cell)];
    // nbformat keeps a source as lines, each with its end
    return answer === undefined ? cell : { ...cell, source: answer.match(/[^\n]*\n|[^\n]+$/g) ?? [] };
  });
  return { ...notebook, cells };
}

/** Offer `content` as a file. */
export function download(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "application/x-ipynb+json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
