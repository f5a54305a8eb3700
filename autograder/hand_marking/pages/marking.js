// The page of one question. All text reaches the page as text; only answers come as HTML, from the server's allow-list.
"use strict";
const $ = id => document.getElementById(id);
const main = $("question"), most = Number(main.dataset.points), base = `/question/${main.dataset.name}`;
const rubric = [...document.querySelectorAll("#rubric button")];
let groups = [], comments = [], current = null, given = [], undo = [], saving = false, touched = false;
let finished = false;  // nothing waits any more: the answer that is still shown takes no more keys
let seen = {};  // the versions of the marks that the form shows: what is fetched later does not count as seen

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", body: JSON.stringify(body),
    headers: {"Content-Type": "application/json", "X-XSRFToken": document.querySelector("meta[name=token]").content},
  };
  const answer = await fetch(base + path, options);
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok && answer.status !== 409) throw new Error(said.error || `the server said ${answer.status}`);
  return {...said, status: answer.status};
}

const number = value => value === null ? "–" : String(Math.round(value * 1000) / 1000);
const group = id => groups.find(one => one.id === id);
const waiting = one => one.members.some(member => member.waiting);
const who = member => member.student || `answer ${member.number}`;

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  Object.assign(made, attributes);
  return made;
}

function taken(state) {
  groups = state.groups;
  comments = state.comments;
  const one = group(current);
  const left = groups.flatMap(each => each.members).filter(member => member.waiting).length;
  const every = groups.flatMap(each => each.members).length;
  document.body.dataset.waiting = left;
  $("state").textContent = left ? `${left} of ${every} to grade` : `all ${every} are graded`;
  $("comments").replaceChildren(...comments.map((text, at) => {
    const made = element("button", text.length > 90 ? `${text.slice(0, 89)}…` : text, {type: "button", title: text});
    if (at < 9) made.prepend(element("kbd", `⇧${at + 1}`), " ");
    made.onclick = () => reuse(at);
    return made;
  }));
  if (!one) return;
  const names = one.members.slice(0, 4).map(who).join(", ") + (one.members.length > 4 ? ", …" : "");
  const how = one.members.length > 1 ? `${one.members.length} identical answers (${names})` : names;
  const again = one.members.some(member => member.waiting && member.score !== null) ? ": submitted again, please check the mark" : "";
  const scores = one.members.map(member => number(member.score ?? member.automatic));
  const kinds = [...new Set(scores)].map(score => `${score} (${scores.filter(each => each === score).length})`);
  $("place").textContent = how + again + (kinds.length > 1 ? `; marks so far: ${kinds.join(", ")}` : "");
  const changed = one.members.find(member => seen[member.id] !== undefined && seen[member.id] !== member.version);
  $("busy").textContent = changed && !saving ? `${changed.by || "somebody"} has graded this meanwhile`
    : one.busy ? `${one.busy} is looking at it too` : "";
  $("like").replaceChildren(...(one.like.length ? [element("span", "Like this: ")] : []), ...one.like.map(group).filter(Boolean).map(like => {
    const made = element("button", `${who(like.members[0])}: ${number(like.members[0].score ?? like.members[0].automatic)}`, {type: "button"});
    made.onclick = () => show(like.id);
    return made;
  }));
}

async function show(id) {
  if (!group(id)) return;
  current = id;
  finished = false;
  $("conflict").hidden = true;
  $("text").textContent = "…";
  fill(group(id));
  taken({groups, comments});
  const answer = await ask(`/answer/${id}`);
  if (current === id) {
    $("text").innerHTML = answer.html;
    document.body.dataset.shown = id;
  }
}

function fill(one) {
  const member = one.members.find(each => each.score !== null) || one.members[0];
  seen = versions(one.members);
  given = rubric.map((_, at) => member.given[at] || 0);
  draw();
  const stands = member.score === null ? member.automatic : member.score;
  $("score").value = stands === null ? "" : number(stands);
  $("comment").value = member.comment;
  touched = false;
}

const versions = members => Object.fromEntries(members.map(member => [member.id, member.version]));

function draw() {
  rubric.forEach((button, at) => {
    const share = given[at];
    button.setAttribute("aria-pressed", share === 1 ? "true" : share ? "mixed" : "false");
    button.lastElementChild.textContent = number(share * Number(button.dataset.points));
  });
}

function summed() {
  draw();
  touched = true;
  $("score").value = number(rubric.reduce((sum, button, at) => sum + given[at] * Number(button.dataset.points), 0));
}

function press(at) {
  if (saving) return;  // a key typed now is meant for the next answer
  given[at] = {0: 1, 1: 0.5, 0.5: 0}[given[at]];
  summed();
}

function all(share) {
  if (saving) return;
  given = rubric.map(() => share);
  summed();
}

function reuse(at) {
  if (comments[at] === undefined) return;
  const box = $("comment");
  box.value = box.value.includes(comments[at]) ? box.value : [box.value, comments[at]].filter(Boolean).join(" ");
  touched = true;
}

// whether the mark is that already: then it is not written again
const stands = (member, wanted) => !member.waiting && member.score === wanted.score && member.comment === wanted.comment
  && rubric.every((_, at) => (member.given[at] || 0) === wanted.given[at]);

function busy(on) {
  saving = on;
  document.body.dataset.idle = on ? "0" : "1";
}

const verdict = () => ({score: Number($("score").value.replace(",", ".")), comment: $("comment").value.trim(), given});

async function save(members, wanted) {
  if (saving) return;
  if (wanted.score !== null && ($("score").value.trim() === "" || !(wanted.score >= 0 && wanted.score <= most))) {
    $("said").textContent = `expected 0 to ${number(most)} points`;
    $("score").focus();
    return;
  }
  busy(true);
  if (members.every(member => stands(member, wanted))) { touched = false; await next().finally(() => busy(false)); return; }
  $("said").textContent = "saving …";
  try {
    const before = members.map(member => ({id: member.id, score: member.score, comment: member.comment, given: member.given}));
    const answer = await ask("/mark", {seen, ...wanted});
    touched = answer.status === 409;
    taken(answer);
    if (answer.status === 409) return conflict(answer.conflict, wanted);
    seen = versions(group(current).members);
    undo.push({group: current, before, after: seen});
    $("undo").disabled = false;
    $("said").textContent = members.length > 1 ? `saved for ${members.length} answers` : "saved";
    document.body.dataset.saved = Number(document.body.dataset.saved || 0) + members.length;
    await next();
  } catch (error) {
    $("said").textContent = `not saved: ${error.message}. What you entered is still here.`;
  } finally {
    busy(false);
  }
}

function conflict(ids, wanted) {
  const theirs = groups.flatMap(one => one.members).filter(member => ids.includes(member.id));
  const here = (group(current) || {members: []}).members;
  const anew = theirs.filter(member => !here.some(one => one.id === member.id));
  if (!here.length && anew.length) return show(groups.find(one => one.members.includes(anew[0])).id).then(() => {
    $("said").textContent = "not saved: this was handed in anew meanwhile. Look at it again.";
  });
  const box = $("conflict");
  const lines = theirs.slice(0, 5).map(member =>
    element("p", anew.includes(member) ? `${who(member)}: handed in anew, and says something else now` : `${who(member)}: ${member.by || "somebody"} gave ${number(member.score)}${member.comment ? `, “${member.comment}”` : ""}`));
  const keep = element("button", "keep what stands", {type: "button", id: "keep"});
  const mine = element("button", `write ${number(wanted.score)} all the same`, {type: "button", id: "mine"});
  keep.onclick = () => { touched = false; next(); };
  const told = versions(here);
  mine.onclick = () => { seen = told; save(here, wanted); };
  $("said").textContent = "not saved";
  box.replaceChildren(element("p", "Changed meanwhile; nothing was written."), ...lines, keep, " ", mine);
  box.hidden = false;
  keep.focus();
}

async function next() {
  const answer = await ask("/next", {after: current || ""});
  $("conflict").hidden = true;
  if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  if (answer.group === null) {
    const others = groups.some(one => waiting(one) && one.busy);
    $("said").textContent = others ? "others are grading the rest" : "every answer here is graded";
    if (current === null && groups.length) await show(groups[0].id);
    finished = true;
    return;
  }
  if (!group(answer.group)) taken(await ask("/state"));
  await show(answer.group);
}

async function back() {
  if (saving || !undo.length) return;
  const last = undo.pop();
  $("undo").disabled = !undo.length;
  await show(last.group);
  for (const old of last.before) {
    const now = groups.flatMap(one => one.members).find(member => member.id === old.id);
    if (!now) continue;
    const answer = await ask("/mark", {seen: {[now.id]: last.after[now.id]}, score: old.score, comment: old.comment, given: old.given});
    taken(answer);
    if (answer.status === 409) $("said").textContent = "not undone: somebody else has graded it since";
    else $("said").textContent = "undone";
  }
  if (group(last.group)) fill(group(last.group));
}

function beside(step) {
  const at = groups.findIndex(one => one.id === current);
  const to = groups[at + step] || (finished ? groups[at] : null);
  if (to) show(to.id);
}

rubric.forEach((button, at) => { button.onclick = () => press(at); });
$("all").onclick = () => all(1);
$("none").onclick = () => all(0);
$("before").onclick = () => beside(-1);
$("after").onclick = () => beside(1);
$("undo").onclick = back;
$("score").oninput = () => { touched = true; given = rubric.map(() => 0); draw(); };
$("comment").oninput = () => { touched = true; };
$("form").onsubmit = event => { event.preventDefault(); if (current) save(group(current).members, verdict()); };
document.addEventListener("keydown", event => {
  const typing = ["INPUT", "TEXTAREA"].includes(event.target.tagName);
  if (event.key === "Escape") return event.target.blur();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); return $("form").requestSubmit(); }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return undefined;
  if (finished && !touched && !["u", "m", "ArrowLeft", "ArrowRight"].includes(event.key)) return undefined;
  const digit = /^Digit([1-9])$/.exec(event.code);
  if (digit && event.shiftKey) { event.preventDefault(); return reuse(Number(digit[1]) - 1); }
  const held = ["BUTTON", "A", "SUMMARY"].includes(event.target.tagName);
  const does = {
    f: () => all(1), 0: () => all(0), u: back, ArrowLeft: () => beside(-1), ArrowRight: () => beside(1),
    c: () => $("comment").focus(), m: () => { $("model").open = !$("model").open; },
    ...(held ? {} : {Enter: () => $("form").requestSubmit()}),
  }[event.key] || (/^[1-9]$/.test(event.key) && rubric[event.key - 1] ? () => press(event.key - 1) : null);
  if (does) { event.preventDefault(); does(); }
  return undefined;
});
window.addEventListener("beforeunload", event => { if (touched) event.preventDefault(); });

(async () => {
  taken(await ask("/state"));
  await next();
  busy(false);
  setInterval(async () => {
    if (saving || document.hidden) return;
    try { taken(await ask("/state")); } catch { $("said").textContent = "no answer from `attn mark`: is it still running?"; }
  }, 4000);
})();
