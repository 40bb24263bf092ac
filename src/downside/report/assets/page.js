const ERRORS_ONLY = 1; // of Vega's levels of logging
for (const place of document.querySelectorAll("[data-chart]")) {
  const spec = JSON.parse(document.getElementById(place.dataset.chart).textContent);
  const options = { mode: "vega-lite", actions: false, renderer: "svg", logLevel: ERRORS_ONLY };
  vegaEmbed(place, spec, options).catch(console.error);
}
