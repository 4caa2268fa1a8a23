/** The filters that were used last, in this browser. */

const KEPT = "kproxy filters";
const MOST = 20;
const LONGEST = 1000; // characters

export function usedFilters() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

export function used(filter) {
  if (filter === "" || filter.length > LONGEST) return;
  localStorage.setItem(KEPT, JSON.stringify([filter, ...usedFilters().filter((one) => one !== filter)].slice(0, MOST)));
}
