/**
 * Loads the page again if one of its scripts did not come, and says so if it does not come then either.
 *
 * Browsers end all connections when a network of the machine changes (a VPN, a container that starts), and never ask again for a
 * module that failed. No module itself, so that it runs before they are loaded.
 */
(() => {
  const KEY = "kproxy reloads"; // of the browser's session storage
  const MOST = 3;
  window.addEventListener("error", (event) => {
    if (!(event.target instanceof HTMLScriptElement)) return;
    const reloads = Number(sessionStorage.getItem(KEY) ?? 0);
    sessionStorage.setItem(KEY, reloads < MOST ? reloads + 1 : 0);
    if (reloads < MOST) window.location.reload();
    else document.getElementById("view").textContent = "The scripts of this page could not be loaded; is kproxy still running? Load it again.";
  }, true);
  window.addEventListener("load", () => {
    if (document.getElementById("bar").childElementCount) sessionStorage.removeItem(KEY);
  });
})();
