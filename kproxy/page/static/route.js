/** The fragment of the URL says what is shown, so that links can be shared and the back button works: #exchanges?filter=… */

export const VIEWS = [
  { id: "exchanges", title: "Exchanges" },
  { id: "map", title: "Map" },
  { id: "time", title: "Time" },
  { id: "groups", title: "Groups" },
  { id: "clients", title: "Clients" },
  { id: "findings", title: "Findings" },
  { id: "breakpoints", title: "Breakpoints", editable: true }, // only where breakpoints are allowed
];

/** Return the views that a source has. */
export const viewsOf = (source) => VIEWS.filter((one) => !one.editable || source?.editable);

/** Return {view, parameters, unknown}. For a view that does not exist, `view` is the first one and `unknown` the given name. */
export function parse(fragment) {
  const [name, query = ""] = fragment.replace(/^#/, "").split(/\?(.*)/s);
  const view = VIEWS.some((one) => one.id === name) ? name : VIEWS[0].id;
  const unknown = name && name !== view ? name : null;
  return { view, unknown, parameters: Object.fromEntries(new URLSearchParams(query)) };
}

/** Return "?a=1&b=2" for the parameters that are neither null nor empty; "" if there are none. */
export function queryOf(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

export const fragmentOf = (view, parameters = {}) => `#${view}${queryOf(parameters)}`;

export const current = () => parse(window.location.hash);

/** Show another view, or other parameters, as a new entry of the browser's history. */
export const go = (view, parameters) => {
  window.location.hash = fragmentOf(view, parameters);
};

/** Change parameters in the URL without an event. With `goesBack`, the browser's back button restores the present ones. */
export function note(changes, goesBack = false) {
  const { view, parameters } = current();
  const fragment = fragmentOf(view, { ...parameters, ...changes });
  if (goesBack && fragment !== fragmentOf(view, parameters)) window.history.pushState(null, "", fragment);
  else window.history.replaceState(null, "", fragment);
}
