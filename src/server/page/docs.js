// Shows /openapi.json: one entry for each endpoint, with the fields of its body.

/** An element with text or other elements in it; texts stay texts. */
function element(name, className, ...parts) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...parts);
  return made;
}

/** "integer", "string or array", "any" for a JSON schema. */
function typeOf(schema) {
  if (Array.isArray(schema.type)) return schema.type.join(" or ");
  if (schema.type) return schema.type;
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  return schema.$ref ? "object" : "any";
}

function fieldTable(schema) {
  const table = element("table", "", element("tr", "",
    element("th", "", "field"), element("th", "", "type"), element("th", "", "meaning")));
  const required = schema.required ?? [];
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const note = required.includes(name) ? " (required)" : "";
    table.append(element("tr", "", element("td", "", element("code", "", name)),
      element("td", "soft", typeOf(field)), element("td", "", (field.description ?? "") + note)));
  }
  return table;
}

function endpointEntry(path, method, endpoint) {
  const entry = element("details", "", element("summary", "",
    element("span", "method", method.toUpperCase()), element("code", "", path), " ",
    element("span", "soft", endpoint.summary)));
  if (endpoint.description) entry.append(element("p", "soft", endpoint.description));
  const body = endpoint.requestBody?.content["application/json"].schema;
  if (body) entry.append(fieldTable(body));
  return entry;
}

/** Entries whose text has no part of the filter are hidden. */
function filterBy(entries, wanted) {
  for (const entry of entries) entry.hidden = !entry.textContent.toLowerCase().includes(wanted.toLowerCase());
}

async function show() {
  const list = document.getElementById("endpoints");
  const reply = await fetch("openapi.json");
  if (!reply.ok) {
    list.textContent = `openapi.json: ${reply.status}`;
    return;
  }
  const api = await reply.json();
  document.getElementById("version").textContent = api.info.version;
  const entries = [];
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, endpoint] of Object.entries(methods)) entries.push(endpointEntry(path, method, endpoint));
  }
  const own = element("details", "", element("summary", "", element("code", "", "lacuna"), " ",
    element("span", "soft", "the object of settings that requests may have")));
  own.append(fieldTable(api.components.schemas.Lacuna));
  entries.push(own);
  list.replaceChildren(...entries);
  const filter = document.getElementById("filter");
  filter.addEventListener("input", () => filterBy(entries, filter.value));
}

show();
