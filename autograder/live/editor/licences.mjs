// Writes ../static/editor.licences.txt: the licence of every package that is in the bundle.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

const folders = ["@codemirror", "@lezer", "@marijn"].flatMap((scope) =>
  readdirSync(`node_modules/${scope}`).map((name) => `${scope}/${name}`),
);
const parts = [...folders, "crelt", "style-mod", "w3c-keyname"].sort().map((name) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`;
});
writeFileSync("../static/editor.licences.txt", parts.join(`\n${"-".repeat(80)}\n\n`));
