// The tab of conversations: several turns, each answer a run.
import { Conversations } from "./conversations.js";
import { askText, askYes } from "./dialogs.js";
import { by, copyText, make, saveFile } from "./dom.js";
import { LOGPROBS_OF_CHATS, Runs } from "./runs.js";

export class ChatTab {
  name = "chat";
  action = "Send";

  /// `app` has props, start(action), settings, common(lacuna), length().
  constructor(app) {
    this.app = app;
    this.conversations = new Conversations();
    this.views = new WeakMap();  // of the messages that were written since the page was opened
    this.runs = new Runs(by("results-chat"), app);
    by("new-conversation").addEventListener("click", () => this.begin());
    by("export-conversation").addEventListener("click", () => this.export());
    by("system").addEventListener("change", () => {
      this.current.system = by("system").value;
      this.save();
    });
    by("prompt").addEventListener("keydown", (event) => {
      const sends = event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.isComposing;
      if (!sends) return;
      event.preventDefault();
      by("request").requestSubmit(by("run"));
    });
    if (this.current.messages.length > 0) by("prompt").value = "";
    this.show();
  }

  get current() {
    return this.conversations.current;
  }

  obstacle(props) {
    return props.has_tokenizer ? null : "This model has no tokenizer, so it cannot read texts.";
  }

  // Requests.

  requests() {
    return this.requestsOf([...this.current.messages, { role: "user", content: by("prompt").value }]);
  }

  requestsOf(messages) {
    const system = this.current.system.trim() === "" ? [] : [{ role: "system", content: this.current.system }];
    return this.app.settings.chosen().map(({ title, lacuna }) => ({
      title, path: "v1/chat/completions",
      body: { messages: [...system, ...messages], ...this.app.length(), ...LOGPROBS_OF_CHATS, ...this.app.common(lacuna) },
    }));
  }

  async run(signal) {
    const content = by("prompt").value;
    if (content.trim() === "") return;
    by("prompt").value = "";
    this.current.messages.push({ role: "user", content });
    await this.answer(signal);
  }

  /// Asks for an answer to the messages that there are. With two settings the first one's is kept.
  async answer(signal) {
    const { current } = this;
    const message = { role: "assistant", content: "" };
    const jobs = this.requestsOf([...current.messages]);
    current.messages.push(message);
    this.save();
    this.show();
    const element = by("messages").lastElementChild;
    element.classList.add("writing");
    jobs[0].onText = (text) => {
      message.content += text;
      element.querySelector(".text").append(text);
      element.scrollIntoView({ block: "nearest" });
    };
    const [first] = await this.runs.run(jobs, signal);
    element.classList.remove("writing");
    this.views.set(message, this.runs.views);
    if (message.content === "" && first.outcome !== "done") current.messages.pop();
    this.save();
    this.show();
  }

  // Conversations.

  begin() {
    this.conversations.add();
    this.save();
    this.show();
    by("prompt").focus();
  }

  save() {
    by("storage-error").hidden = this.conversations.save();
  }

  async rename(conversation) {
    const title = await askText("Name of the conversation", conversation.title);
    if (title === null) return;
    this.conversations.rename(conversation, title);
    this.show();
  }

  async remove(conversation) {
    if (!(await askYes(`Delete “${conversation.title}”?`, "Delete"))) return;
    this.conversations.remove(conversation);
    this.show();
  }

  export() {
    const { title, system, messages } = this.current;
    saveFile("conversation.json", new Blob([JSON.stringify({ title, system, messages }, null, 2)], { type: "application/json" }));
  }

  show() {
    by("conversations").replaceChildren(...this.conversations.list.map((each) => this.entryOf(each)));
    by("conversation-title").textContent = this.current.title;
    by("system").value = this.current.system ?? "";
    by("messages").replaceChildren(...this.current.messages.map((message, index) => this.elementOf(message, index)));
    by("messages").lastElementChild?.scrollIntoView({ block: "nearest" });
    this.app.showChoices();
  }

  entryOf(conversation) {
    const open = make("button", { type: "button", className: "open", onclick: () => {
      this.conversations.select(conversation);
      this.show();
    } }, conversation.title);
    if (conversation === this.current) open.setAttribute("aria-current", "true");
    return make("li", {}, open,
                tool("Rename", `Rename ${conversation.title}`, () => this.rename(conversation)),
                tool("Delete", `Delete ${conversation.title}`, () => this.remove(conversation)));
  }

  elementOf(message, index) {
    const isUser = message.role === "user";
    const isLast = index === this.current.messages.length - 1;
    const copy = tool("Copy", "", () => copyText(message.content, copy));
    const tools = make("div", { className: "tools" }, copy);
    if (isUser) tools.append(tool("Edit", "", () => this.edit(index)));
    if (!isUser && isLast) {
      tools.append(tool("Regenerate", "", () => this.regenerate(index), "Writes the answer again, with the next seed"));
    }
    if (this.views.has(message)) tools.append(tool("Show the run", "", () => this.showRun(message)));
    return make("article", { className: `message ${message.role}`, "aria-label": isUser ? "You" : "Answer" },
                make("p", { className: "text" }, message.content), tools);
  }

  /// Puts a message back to where messages are written; what came after it is dropped once it is sent.
  edit(index) {
    const { current } = this;
    const element = by("messages").children[index];
    const field = make("textarea", { rows: 3, value: current.messages[index].content, "aria-label": "Message" });
    const send = tool("Send", "", () => this.app.start(async (signal) => {
      current.messages.length = index;
      current.messages.push({ role: "user", content: field.value });
      await this.answer(signal);
    }));
    element.replaceChildren(field, make("div", { className: "tools" }, send, tool("Cancel", "", () => this.show())));
    field.focus();
  }

  showRun(message) {
    this.runs.show(this.views.get(message));
    this.runs.compare();
  }

  regenerate(index) {
    this.app.start(async (signal) => {
      by("seed").value = (by("seed").valueAsNumber || 0) + 1;
      this.current.messages.length = index;
      await this.answer(signal);
    });
  }
}

function tool(text, label, onclick, title = "") {
  const button = make("button", { type: "button", className: "tool", onclick, title }, text);
  if (label !== "") button.setAttribute("aria-label", label);
  return button;
}
