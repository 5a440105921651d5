// Requests to the server, and the server-sent events of its answers.

/// Throws an Error with the server's own sentence where it refuses; `status` is HTTP's.
export async function ask(path, { body, key, signal } = {}) {
  const headers = { "Content-Type": "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  const method = body === undefined ? "GET" : "POST";
  const response = await fetch(path, { method, headers, signal, body: JSON.stringify(body) });
  if (response.ok) return response;
  const reply = await response.json().catch(() => ({}));
  const error = new Error(reply.error?.message ?? `the server answered ${response.status}`);
  error.status = response.status;
  throw error;
}

/// The JSON of each event, up to [DONE].
export async function* eventsOf(response) {
  let text = "";
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      if (!block.startsWith("data: ")) continue;  // a comment: the server is still there
      const data = block.slice("data: ".length);
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}
