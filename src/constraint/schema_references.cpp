#include "constraint/schema_references.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/name_list.h"
#include "constraint/schema_keywords.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

constexpr size_t kStepsPerValue = 30, kBytesPerValue = 96;

/// The string at a key; empty if it is absent or not a string.
std::string_view text_of(const ordered_json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? std::string_view(found->get_ref<const std::string&>())
                                                     : std::string_view();
}

/// Whether a value may have references other than JSON pointers.
bool has_other_references(const ordered_json& value, bool is_root) {
  constexpr std::array<std::string_view, 4> kKeywords{"$anchor", "$dynamicRef", "$recursiveRef", "$id"};
  spend_steps(kStepsPerValue);
  if (value.is_object()) {
    for (const std::string_view keyword : kKeywords) {
      if (value.contains(keyword) && !(is_root && keyword == "$id")) return true;
    }
    const std::string_view target = text_of(value, "$ref");
    if (!target.empty() && target != "#" && !target.starts_with("#/")) return true;
  }
  return std::any_of(value.begin(), value.end(), [](const ordered_json& part) {
    return part.is_structured() && has_other_references(part, false);
  });
}

/// The length of "scheme:" at the beginning of a URI; 0: it is relative.
size_t scheme_length(std::string_view uri) {
  const size_t end = uri.find_first_of(":/?#");
  return end != std::string_view::npos && end > 0 && uri[end] == ':' ? end + 1 : 0;
}

/// Resolves "." and ".." in a path.
std::string without_dots(std::string_view path) {
  std::vector<std::string_view> parts;
  bool ends_open = false;  // the path ends with a slash
  while (true) {
    const size_t end = path.find('/');
    const std::string_view part = path.substr(0, end);
    const bool is_last = end == std::string_view::npos;
    ends_open = is_last && (part == "." || part == "..");
    if (part == "..") {
      if (!parts.empty() && !parts.back().empty()) parts.pop_back();
    } else if (part != ".") {
      parts.push_back(part);
    }
    if (is_last) break;
    path.remove_prefix(end + 1);
  }
  if (ends_open) parts.emplace_back();
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += '/';
    text += parts[i];
  }
  return text;
}

/// Resolves a reference without a fragment against `base` (RFC 3986, 5.2).
std::string resolved_uri(std::string_view base, std::string_view reference) {
  if (reference.empty()) return std::string(base);
  if (scheme_length(reference) > 0) return std::string(reference);
  const size_t scheme = scheme_length(base);
  if (reference.starts_with("//")) return std::string(base.substr(0, scheme)) += reference;
  size_t path = scheme;  // offset of the base's path
  if (base.substr(scheme).starts_with("//")) path = std::min(base.find('/', scheme + 2), base.size());
  std::string uri(base.substr(0, path));
  if (reference.front() == '/') return uri += without_dots(reference);
  const size_t last = base.rfind('/');
  std::string merged = last == std::string_view::npos || last < path
                           ? std::string(path > scheme ? "/" : "")
                           : std::string(base.substr(path, last + 1 - path));
  return uri += without_dots(merged += reference);
}

/// A key as "/" and a reference token of a JSON pointer in a URI.
std::string as_pointer_part(std::string_view key) {
  std::string part = "/";
  for (const char c : key) part += c == '~' ? "~0" : c == '/' ? "~1" : c == '%' ? "%25" : std::string(1, c);
  return part;
}

/// Collects all targets and references in one walk, and then writes the pointers.
class References {
 public:
  void read(ordered_json& document) {
    const std::string_view id = text_of(document, "$id");
    if (id.empty() || id.starts_with("#")) resources_.emplace("", "");
    walk(document, {.is_schema = true}, nullptr);
  }

  void write() {
    // Changing an object moves its members in memory, so inner references are written first.
    for (auto each = references_.rbegin(); each != references_.rend(); ++each) write(*each);
  }

 private:
  /// Location of a value: its key in the parent.
  struct Place {
    const Place* parent;
    std::string key;

    std::string pointer() const {
      std::vector<std::string> parts;
      for (const Place* place = this; place != nullptr; place = place->parent)
        parts.push_back(as_pointer_part(place->key));
      std::string text;
      for (auto part = parts.rbegin(); part != parts.rend(); ++part) text += *part;
      return text;
    }
  };

  struct Scope {
    bool is_schema = false;      ///< false: below an unknown keyword, where "$id" has no meaning
    std::string_view base = {};  ///< URI of the resource
  };

  struct Reference {
    ordered_json* schema;
    std::string_view base;
    std::string_view outer;  ///< base before draft 2019-09, which ignores an "$id" next to "$ref"
  };

  void walk(ordered_json& value, Scope scope, const Place* place) {
    spend_steps(kStepsPerValue);
    spend_bytes(kBytesPerValue);
    if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) {
        const Place item{place, std::to_string(i)};
        if (value[i].is_structured()) walk(value[i], scope, &item);
      }
    }
    if (!value.is_object()) return;
    const std::string_view outer = scope.base;
    if (scope.is_schema) name(value, place, scope);
    for (const char* keyword : {"$ref", "$dynamicRef", "$recursiveRef"}) {
      if (text_of(value, keyword).empty()) continue;
      spend_bytes(sizeof(Reference));
      references_.push_back({&value, scope.base, place == nullptr ? scope.base : outer});
      break;
    }
    for (auto each = value.begin(); each != value.end(); ++each) {
      if (each->is_structured()) walk_keyword(each.key(), *each, scope, place);
    }
  }

  void walk_keyword(const std::string& keyword, ordered_json& value, const Scope& scope, const Place* place) {
    if (has_name("enum const default examples example", keyword)) return;
    const Place own{place, keyword};
    const SchemaKeyword* known = find_keyword(keyword);
    const auto has = [&](std::initializer_list<KeywordForm> forms) {
      return known != nullptr && std::ranges::find(forms, known->form) != forms.end();
    };
    const bool is_named =
        has({KeywordForm::kNamedSchemas, KeywordForm::kNamedSchemasOrTexts, KeywordForm::kDefinitions});
    if (is_named && value.is_object()) {
      for (auto each = value.begin(); each != value.end(); ++each) {
        const Place member{&own, each.key()};
        if (each->is_structured()) walk(*each, scope, &member);
      }
      return;
    }
    const bool is_schema = has(
        {KeywordForm::kSchema, KeywordForm::kSchemas, KeywordForm::kSchemaOrSchemas, KeywordForm::kUnread});
    walk(value, {scope.is_schema && is_schema, scope.base}, &own);
  }

  /// Records the names that a schema gives itself.
  void name(const ordered_json& schema, const Place* place, Scope& scope) {
    const auto pointer = [&] {
      std::string text = place == nullptr ? "" : place->pointer();
      spend_steps(text.size() + scope.base.size());
      spend_bytes(text.size() + scope.base.size() + kBytesPerValue);
      return text;
    };
    if (const std::string_view id = text_of(schema, "$id"); !id.empty()) {
      const size_t fragment = std::min(id.find('#'), id.size());
      spend_bytes(scope.base.size() + id.size());
      scope.base = bases_.emplace_back(resolved_uri(scope.base, id.substr(0, fragment)));
      if (fragment > 0) resources_.emplace(scope.base, pointer());
      if (fragment + 1 < id.size())  // an anchor before draft 2019-09
        anchors_.emplace(std::pair(scope.base, id.substr(fragment + 1)), pointer());
    }
    for (const char* keyword : {"$anchor", "$dynamicAnchor"}) {
      const std::string_view anchor = text_of(schema, keyword);
      if (anchor.empty()) continue;
      anchors_.emplace(std::pair(scope.base, anchor), pointer());
      if (keyword == std::string_view("$dynamicAnchor")) ++dynamic_anchors_[std::string(anchor)];
    }
    const auto recursive = schema.find("$recursiveAnchor");
    has_recursive_anchor_ = has_recursive_anchor_ || (recursive != schema.end() && *recursive == true);
  }

  /// The pointer to a reference's target; empty if the target is not in the document.
  std::optional<std::string> find(std::string_view base, std::string_view target) const {
    const size_t hash = std::min(target.find('#'), target.size());
    spend_steps(base.size() + target.size());
    const std::string uri = resolved_uri(base, target.substr(0, hash));
    const auto resource = resources_.find(uri);
    if (resource == resources_.end()) return {};
    const std::string_view fragment = hash < target.size() ? target.substr(hash + 1) : std::string_view();
    if (fragment.empty() || fragment.front() == '/') return std::string(resource->second).append(fragment);
    const auto anchor = anchors_.find(std::pair(uri, std::string(fragment)));
    return anchor == anchors_.end() ? std::nullopt : std::optional(anchor->second);
  }

  /// Whether a reference's target may depend on the path of evaluation.
  bool is_dynamic(std::string_view keyword, std::string_view target) const {
    if (keyword == "$ref") return false;
    if (keyword == "$recursiveRef") return has_recursive_anchor_ && resources_.size() > 1;
    const size_t hash = target.find('#');
    if (hash == std::string_view::npos) return false;
    const auto known = dynamic_anchors_.find(std::string(target.substr(hash + 1)));
    return known != dynamic_anchors_.end() && known->second > 1;
  }

  void write(const Reference& found) const {
    ordered_json& schema = *found.schema;
    for (const char* keyword : {"$ref", "$dynamicRef", "$recursiveRef"}) {
      const std::string_view target = text_of(schema, keyword);
      if (target.empty() || is_dynamic(keyword, target)) continue;
      std::optional<std::string> pointer = find(found.base, target);
      // A URI with different targets in different drafts stays unchanged, and is refused later.
      if (!pointer || (target.front() != '#' && pointer != find(found.outer, target))) continue;
      spend_steps(kStepsPerValue + pointer->size());
      spend_bytes(pointer->size());
      ordered_json reference("#" + *pointer);
      if (keyword == std::string_view("$ref")) {
        schema["$ref"] = std::move(reference);
      } else if (!schema.contains("$ref")) {
        schema.erase(keyword);
        schema["$ref"] = std::move(reference);
      } else if (!schema.contains("allOf")) {
        schema.erase(keyword);
        schema["allOf"] = ordered_json::array({{{"$ref", std::move(reference)}}});
      }
    }
  }

  std::deque<std::string> bases_;
  std::map<std::string, std::string> resources_;                        // pointers by URI
  std::map<std::pair<std::string, std::string>, std::string> anchors_;  // pointers by URI and name
  std::map<std::string, int> dynamic_anchors_;                          // how often a name occurs
  bool has_recursive_anchor_ = false;
  std::vector<Reference> references_;  // outer schemas before inner ones
};

}  // namespace

std::optional<ordered_json> with_plain_references(const ordered_json& document) {
  if (!document.is_object() || !has_other_references(document, true)) return {};
  ordered_json plain = document;
  References references;
  references.read(plain);
  references.write();
  return plain;
}

}  // namespace lacuna
