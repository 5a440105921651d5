// A recorded run in the fragment of a link, which browsers do not send to servers.

const NAME = "#run=";
const MOST_LETTERS = 32768;  // characters of a link: programs that pass links on cut longer ones
const MOST_BYTES = 1 << 22;    // bytes of a run inside a link: a packed one may be a thousand times smaller

/// The link to this page that shows a recorded run. Throws an Error with one sentence where it would be too long.
export async function linkOf(trace) {
  if (trace.length > MOST_BYTES) throw new Error(`the run has more than ${MOST_BYTES} bytes; export it as a trace instead`);
  const packed = await new Response(new Blob([trace]).stream().pipeThrough(new CompressionStream("deflate-raw"))).arrayBuffer();
  const letters = btoa(Array.from(new Uint8Array(packed), (byte) => String.fromCharCode(byte)).join(""));
  const link = location.href.split("#")[0] + NAME + letters.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  if (link.length <= MOST_LETTERS) return link;
  throw new Error(`a link to this run would have ${link.length} characters, and at most ${MOST_LETTERS} are passed on safely; ` +
                  "export the run as a trace instead");
}

/// Whether a link's fragment is said to hold a recorded run.
export const holdsRun = (fragment) => fragment.startsWith(NAME);

/// The recorded run in such a fragment. Throws an Error with one sentence where it is damaged, or too large.
export async function traceOfFragment(fragment) {
  if (fragment.length > MOST_LETTERS) throw new Error(`the link has ${fragment.length} characters; expected at most ${MOST_LETTERS}`);
  try {
    const letters = atob(fragment.slice(NAME.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    return await inflate(new Blob([bytes]).stream());
  } catch (error) {
    if (error instanceof RangeError) throw error;
    throw new Error("the link holds no recorded run: it was cut or changed on its way");
  }
}

async function inflate(packed) {
  const parts = [];
  let bytes = 0;
  const reader = packed.pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return await new Blob(parts).text();
    bytes += value.length;
    if (bytes > MOST_BYTES) throw new RangeError(`the run in the link has more than ${MOST_BYTES} bytes; expected one that this page packed`);
    parts.push(value);
  }
}
