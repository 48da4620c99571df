// plugins sign
#include <boost/json/object.hpp>

#include <cstdio>
#include <memory>

#include "cli/json_facts.hpp"
#include "cli/plugin_commands.hpp"
#include "gearbox/base/text.hpp"
#include "plugin_host/manifest.hpp"

namespace gearbox::cli {

namespace {

void run_sign(CliContext& context, const std::filesystem::path& file, const std::filesystem::path& key_file) {
  // Looked at first: a mistyped name must not make a key.
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return fail(context, Error{Errc::bad_plugin, file.string() + ": " + (error ? error.message() : "is no file")});
  }
  const bool known = std::filesystem::exists(key_file, error);
  const auto keys = link::load_or_make_signing_keys(key_file);
  if (!keys) return fail(context, keys.error());
  if (const auto made = plugin_host::sign_plugin(file, keys.value()); !made) return fail(context, made.error());
  const std::string signature = plugin_host::signature_of(file).string();
  const std::string key = to_text(keys.value().public_key);
  if (context.json) {
    const boost::json::object out{{"signature", signature}, {"public_key", key}, {"new_key", !known}};
    return print_json(out);
  }
  std::printf("%s written: it belongs beside the library\n", escaped(signature, 4096).c_str());
  if (!known) {
    std::printf("%s is a new key: whoever has it can make this broker load code\n",
                escaped(key_file.string(), 4096).c_str());
  }
  std::printf("[plugins] of gearbox.toml takes it with the line\n  trusted_keys = [\"%s\"]\n", key.c_str());
}

}  // namespace

void add_plugin_sign_command(CLI::App& group, CliContext& context) {
  CLI::App* sign = add_command(group, context, "sign", "sign a plugin file: writes FILE.sig beside it",
                               "broker plugins sign ./my_balancer.so --key ~/.config/gearbox/plugin.key", true);
  const auto file = std::make_shared<std::filesystem::path>();
  const auto key = std::make_shared<std::filesystem::path>();
  sign->add_option("file", *file, "the .so")->required()->type_name("FILE");
  sign->add_option("--key", *key, "the secret key; made, for you alone to read, when there is no such file")
      ->required()
      ->type_name("KEYFILE");
  sign->callback([&context, file, key] { run_sign(context, *file, *key); });
}

}  // namespace gearbox::cli
