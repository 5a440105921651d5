// A recorded run in the fragment of a link, which browsers do not send to servers.

const NAME = "#run=";
const MOST_LETTERS = 32768;  // characters of a link: programs that pass links on cut longer ones
const MOST_BYTES = 1 << 24;  // bytes of a run inside a link

/// The link to this page that shows a recorded run. Throws an Error with one sentence where it would be too long.
export async function linkOf(trace) {
  const packed = await new Response(new Blob([trace]).stream().pipeThrough(new CompressionStream("deflate-raw"))).arrayBuffer();
  const letters = btoa(Array.from(new Uint8Array(packed), (byte) => String.fromCharCode(byte)).join(""));
  const link = location.href.split("#")[0] + NAME + letters.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  if (link.length <= MOST_LETTERS) return link;
  throw new Error(`a link to this run would have ${link.length} characters, and at most ${MOST_LETTERS} are passed on safely; ` +
                  "export the run as a trace instead");
}

/// The recorded run in a link's fragment; null where the fragment holds none.
/// Throws an Error with one sentence where it is damaged.
export async function traceOfFragment(fragment) {
  if (!fragment.startsWith(NAME)) return null;
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
    if (bytes > MOST_BYTES) throw new RangeError(`the run in the link has more than ${MOST_BYTES} bytes`);
    parts.push(value);
  }
}
