/** What is shown is in the fragment of the URL, so that it can be shared and the browser's back button works: #exchanges?filter=… */

export const VIEWS = [
  { id: "exchanges", title: "Exchanges" },
  { id: "map", title: "Map" },
  { id: "time", title: "Time" },
  { id: "groups", title: "Groups" },
  { id: "clients", title: "Clients" },
  { id: "findings", title: "Findings" },
  { id: "breakpoints", title: "Breakpoints", editable: true }, // only where the source may be changed
];

/** Those that a source has. */
export const viewsOf = (source) => VIEWS.filter((one) => !one.editable || source?.editable);

/** {view, parameters, unknown}; a view that does not exist is the first, and `unknown` its name. */
export function parse(fragment) {
  const [name, query = ""] = fragment.replace(/^#/, "").split(/\?(.*)/s);
  const view = VIEWS.some((one) => one.id === name) ? name : VIEWS[0].id;
  const unknown = name && name !== view ? name : null;
  return { view, unknown, parameters: Object.fromEntries(new URLSearchParams(query)) };
}

/** "?a=1&b=2" of the parameters that are neither null nor empty; "" where there is none. */
export function queryOf(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

export const fragmentOf = (view, parameters = {}) => `#${view}${queryOf(parameters)}`;

export const current = () => parse(window.location.hash);

/** Show another view, or this one with other parameters; a new entry of the browser's history. */
export const go = (view, parameters) => {
  window.location.hash = fragmentOf(view, parameters);
};

/** Change parameters of the view: no event; with `goesBack`, the browser's back button comes back to what is there now. */
export function note(changes, goesBack = false) {
  const { view, parameters } = current();
  const fragment = fragmentOf(view, { ...parameters, ...changes });
  if (goesBack && fragment !== fragmentOf(view, parameters)) window.history.pushState(null, "", fragment);
  else window.history.replaceState(null, "", fragment);
}
