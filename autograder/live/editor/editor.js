// The editor of the live book: CodeMirror 6 with what an answer of ten lines needs, and no more.
// `npm ci && npm run build` in this folder writes ../static/editor.min.js, which is kept in the repository,
// so neither an installation nor a page needs npm or a network.
import { autocompletion, closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec, RangeSetBuilder } from "@codemirror/state";
import { Decoration, drawSelection, EditorView, keymap, lineNumbers, ViewPlugin } from "@codemirror/view";
import { tags } from "@lezer/highlight";

// Colours are variables of the page's style sheet, so the editor changes with the theme and needs no second style.
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword, tags.definitionKeyword], color: "var(--live-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--live-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--live-number)" },
  { tag: tags.comment, color: "var(--live-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName))], color: "var(--live-function)" },
]);

// A wrapped line goes on below its own indentation, a little further in, so that on a phone code keeps its shape.
const BESIDE = 6; // px: CodeMirror's own padding to the left of a line
const DEEPEST = 16; // characters: a phone shows about forty

function hanging(view) {
  const made = new RangeSetBuilder();
  for (const { from, to } of view.visibleRanges) {
    for (let at = from; at <= to; ) {
      const line = view.state.doc.lineAt(at);
      const deep = Math.min(line.text.search(/\S|$/), DEEPEST) + 2;
      const style = `padding-left: calc(${deep}ch + ${BESIDE}px); text-indent: -${deep}ch`;
      made.add(line.from, line.from, Decoration.line({ attributes: { style } }));
      at = line.to + 1;
    }
  }
  return made.finish();
}

const hangingIndent = ViewPlugin.fromClass(
  class {
    constructor(view) {
      this.decorations = hanging(view);
    }
    update(update) {
      if (update.docChanged || update.viewportChanged) this.decorations = hanging(update.view);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

/** Put an editor into `parent`. `onChange(text)` follows each change, `onRun()` Ctrl+Enter or Shift+Enter. */
export function makeEditor({ parent, text, label, plain = false, onChange, onRun = () => {} }) {
  const run = () => {
    onRun();
    return true;
  };
  const language = plain
    ? []
    : [
        lineNumbers(),
        hangingIndent,
        python(),
        indentUnit.of("    "),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        autocompletion({ activateOnTyping: false }),
        syntaxHighlighting(colours),
        keymap.of([...closeBracketsKeymap, indentWithTab]), // Escape, then Tab, leaves the editor by keyboard
      ];
  return new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        Prec.highest(keymap.of([{ key: "Mod-Enter", run }, { key: "Shift-Enter", run }])),
        history(),
        drawSelection(),
        EditorView.lineWrapping, // on a phone, and for a keyboard: nothing scrolls sideways inside the page
        language,
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.contentAttributes.of({ "aria-label": label, spellcheck: String(plain), autocapitalize: "off" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onChange(update.state.doc.toString());
        }),
      ],
    }),
  });
}

/** Replace the whole text; one step of the history, so Ctrl+Z brings the old text back. */
export function setText(view, text) {
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
}
