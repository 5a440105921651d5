#include "server/openapi.h"

#include <algorithm>
#include <string>

#include "base/json.h"
#include "server/settings.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

/// JSON Schema for a type name of describe_settings().
ordered_json schema_of_type(const std::string& type) {
  if (type == "strings") return {{"type", "array"}, {"items", {{"type", "string"}}}};
  return {{"type", type}};
}

/// Schema of "lacuna": all settings by their own names.
ordered_json describe_own_object() {
  ordered_json schema = schema_of_fields(own_members());
  for (const ordered_json& setting : describe_settings()) {
    ordered_json each = schema_of_type(setting["type"]);
    each["description"] = setting["help"];
    schema["properties"][setting["name"].get<std::string>()] = std::move(each);
  }
  return schema;
}

/// Adds the settings that are accepted at the top level (is_common_name()).
void add_common_settings(ordered_json& schema) {
  for (const ordered_json& setting : describe_settings()) {
    ordered_json names = setting["aliases"];
    names.insert(names.begin(), setting["name"]);
    for (const ordered_json& name : names) {
      std::string key = name.get<std::string>();
      std::replace(key.begin(), key.end(), '-', '_');
      if (!is_common_name(key) || schema["properties"].contains(key)) continue;
      ordered_json each = schema_of_type(setting["type"]);
      each["description"] = setting["help"];
      schema["properties"][key] = std::move(each);
    }
  }
}

ordered_json describe_body(const Endpoint& endpoint) {
  const Dialect* dialect = endpoint.dialect;
  ordered_json schema = schema_of_fields(dialect != nullptr ? dialect->fields() : endpoint.fields);
  if (dialect != nullptr && dialect->takes_common_settings) add_common_settings(schema);
  if (dialect != nullptr) schema["properties"]["lacuna"] = {{"$ref", "#/components/schemas/Lacuna"}};
  return {{"required", true}, {"content", {{"application/json", {{"schema", std::move(schema)}}}}}};
}

ordered_json describe_endpoint(const Endpoint& endpoint) {
  ordered_json described{{"summary", endpoint.summary}};
  if (!endpoint.alias.empty()) described["description"] = "Also " + std::string(endpoint.alias) + ".";
  if (endpoint.path.ends_with("{id}")) {
    described["parameters"] = ordered_json::array(
        {{{"name", "id"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}});
  }
  if (endpoint.method == "POST") described["requestBody"] = describe_body(endpoint);
  described["responses"] = {{"200", {{"description", "the answer"}}}};
  if (endpoint.answer == nullptr) {
    described["security"] = ordered_json::array();
  } else {
    described["responses"]["default"] = {{"description", "an error, whose message names the field"}};
  }
  return described;
}

}  // namespace

std::string describe_api(std::span<const Endpoint> endpoints, std::string_view version) {
  ordered_json paths = ordered_json::object();
  for (const Endpoint& endpoint : endpoints) {
    const std::string method = endpoint.method == "GET" ? "get" : "post";
    paths[std::string(endpoint.path)][method] = describe_endpoint(endpoint);
  }
  const ordered_json bearer{{"type", "http"}, {"scheme", "bearer"}};
  const ordered_json key{{"type", "apiKey"}, {"in", "header"}, {"name", "X-Api-Key"}};
  const ordered_json api{{"openapi", "3.1.0"},
                         {"info", {{"title", "Lacuna"}, {"version", version}}},
                         {"paths", std::move(paths)},
                         {"components",
                          {{"schemas", {{"Lacuna", describe_own_object()}}},
                           {"securitySchemes", {{"bearer", bearer}, {"key", key}}}}},
                         {"security", ordered_json::array({{{"bearer", ordered_json::array()}},
                                                           {{"key", ordered_json::array()}}})}};
  return dump_json(api);
}

}  // namespace lacuna
