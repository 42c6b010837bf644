// Elements by hand. What comes from outside goes in as text nodes only, so markup in a device id stays text.

export const byId = (id) => document.getElementById(id);

/** make("td", { class: "x", title: "…", "data-state": "online" }, child or text, …): a value of null or false is left out. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Writes only what is different, so that a screen reader and a selection are left in peace. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** How a state looks wherever one is shown: a dot whose form differs too, and the word. */
export function stateBadge(state) {
  return make("span", { class: "badge", "data-state": state }, make("span", { class: "dot", "data-state": state, "aria-hidden": "true" }), state);
}

export function timeElement(ms, text) {
  const iso = new Date(ms).toISOString();
  return make("time", { datetime: iso, title: iso }, text);
}

export const reasons = { timeout: "timeout", disconnect: "disconnect", state_lost: "state lost" };
