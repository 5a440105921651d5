// A worker that reads a recorded run from a file or a link: whatever it holds, the page stays free, and recorded.js ends what takes too long.
import { traceOfFragment } from "./link.js";
import { eventsOfTrace } from "./trace.js";

addEventListener("message", async ({ data: { file, fragment, mask } }) => {
  try {
    const text = await (file ? file.text() : traceOfFragment(fragment));
    postMessage({ events: eventsOfTrace(text, mask) });
  } catch (error) {
    postMessage({ sentence: error.message });
  }
});
