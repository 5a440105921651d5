// Requests to the server, and the server-sent events of its answers.

const UNREACHABLE = `The server at ${location.origin} cannot be reached: it has ended, or the network is down.`;
const CUT = "The connection to the server was closed before the answer was complete.";

/// Throws an Error with the server's own sentence where it refuses; `status` is HTTP's, and 0 where no server answers.
export async function ask(path, { body, key, signal } = {}) {
  const headers = { "Content-Type": "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  const method = body === undefined ? "GET" : "POST";
  const response = await connected(fetch(path, { method, headers, signal, body: JSON.stringify(body) }), UNREACHABLE);
  if (response.ok) return response;
  const reply = await response.json().catch(() => ({}));
  throw failure(reply.error?.message ?? `the server answered ${response.status}`, response.status);
}

/// The JSON of each event, up to [DONE]. Throws as ask() does where the connection ends before.
export async function* eventsOf(response) {
  let text = "";
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await connected(reader.read(), CUT);
    if (done) throw failure(CUT, 0);
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

/// Replaces the browser's error of a failed connection, which does not help a reader, by a sentence. "Stop" is not a failure.
async function connected(promise, sentence) {
  try {
    return await promise;
  } catch (error) {
    throw error.name === "AbortError" ? error : failure(sentence, 0);
  }
}

function failure(sentence, status) {
  return Object.assign(new Error(sentence), { status });
}
