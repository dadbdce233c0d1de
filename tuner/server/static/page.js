// Keeps the page as the daemon is now. Without this script the page works too, and reloads itself.
"use strict";
const PERIOD_MS = 5000;
const hold = document.getElementById("hold");
const lost = document.getElementById("lost");
let since = null;

hold.hidden = false;
hold.addEventListener("click", () => {
  const held = hold.getAttribute("aria-pressed") !== "true";
  hold.setAttribute("aria-pressed", String(held));
  hold.textContent = held ? "Held: go on" : "Hold the picture";
});

function shown(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const next = fresh.getElementById("now");
  if (!next) throw new Error("this is not the page");
  const open = [...document.querySelectorAll("details[open][id]")].map((d) => d.id);
  const focus = document.activeElement && document.activeElement.closest("details[id]");
  document.getElementById("now").replaceWith(next);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focus) document.getElementById(focus.id)?.querySelector("summary")?.focus();
  document.title = fresh.title;
}

async function look() {
  if (document.hidden || hold.getAttribute("aria-pressed") === "true") return;
  try {
    const answer = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(PERIOD_MS) });
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
    shown(await answer.text());
    since = null;
    lost.hidden = true;
  } catch (error) {
    since ??= new Date();
    lost.textContent = `No answer from the daemon since ${since.toLocaleTimeString()}. What you see is old.`;
    lost.hidden = false;
  }
}

setInterval(look, PERIOD_MS);
document.addEventListener("visibilitychange", look);
