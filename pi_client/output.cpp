#include "output.hpp"

#include <cinttypes>
#include <cstdio>

#include "gearbox/base/text.hpp"
#include "tensor_text.hpp"

namespace gearbox::client {

namespace {

/// For file names and details: what is not UTF-8 becomes \xNN, so that the line stays JSON.
void append_outside_text(std::string& out, std::string_view text) {
  append_json_string(out, is_utf8(text) ? std::string(text) : escaped(text, 4096));
}

void append_member(std::string& out, std::string_view key, std::string_view text) {
  out += ",\"";
  out += key;
  out += "\":";
  append_outside_text(out, text);
}

void append_member(std::string& out, std::string_view key, std::uint64_t value, bool first = false) {
  if (!first) out += ',';
  out += '"';
  out += key;
  out += "\":" + std::to_string(value);
}

std::uint64_t count(microseconds time) {
  return static_cast<std::uint64_t>(time.count());
}

/// "NAME":{"dtype":...,"shape":[...] and no end.
void append_output_begin(std::string& out, const wire::TensorSpec& spec) {
  append_outside_text(out, spec.name);
  out += ":{\"dtype\":\"";
  out += wire::name_of(spec.dtype);
  out += "\",\"shape\":[";
  for (std::size_t k = 0; k < spec.shape.size(); ++k) out += (k > 0 ? "," : "") + std::to_string(spec.shape[k]);
  out += ']';
}

void append_outputs(std::string& out, const Report& report) {
  out += ",\"outputs\":{";
  for (std::size_t i = 0; i < report.result.tensors.size(); ++i) {
    const wire::TensorSpec& spec = report.result.tensors[i];
    if (i > 0) out += ',';
    append_output_begin(out, spec);
    if (i < report.paths.size() && !report.paths[i].empty()) {
      append_member(out, "path", report.paths[i]);
    } else {
      out += ",\"data\":";
      std::string data;
      // The session has checked the result against its specs; what still does not fit (a BYTES element's length) is
      // null.
      out += append_json_elements(data, spec, bytes_of(report, i)) ? data : "null";
    }
    out += '}';
  }
  out += '}';
}

void append_timing(std::string& out, const Report& report) {
  out += ",\"timing\":{";
  append_member(out, "prepare_us", count(report.timing.prepare), true);
  append_member(out, "locate_us", count(report.timing.locate));
  append_member(out, "connect_us", count(report.timing.connect));
  append_member(out, "upload_us", count(report.timing.upload));
  append_member(out, "queue_us", report.result.timing.queue_us);
  out += ",\"steps\":[";
  bool first = true;
  for (const wire::StepTiming& step : report.result.timing.steps) {
    out += first ? "{\"step\":" : ",{\"step\":";
    first = false;
    append_outside_text(out, step.step);
    append_member(out, "model", step.model);
    append_member(out, "version", step.version);
    append_member(out, "calls", step.calls);
    append_member(out, "queue_us", step.queue_us);
    append_member(out, "run_us", step.run_us);
    append_member(out, "retries", step.retries);
    out += '}';
  }
  out += ']';
  append_member(out, "node_us", report.result.timing.total_us);
  append_member(out, "reply_us", count(report.timing.reply));
  append_member(out, "total_us", count(report.timing.total));
  out += '}';
}

std::string milliseconds_text(std::uint64_t us) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(us) / 1000.0);
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  char text[32];
  if (bytes < 10'000) {
    std::snprintf(text, sizeof text, "%" PRIu64 " B", bytes);
  } else if (bytes < 10'000'000) {
    std::snprintf(text, sizeof text, "%.1f KB", static_cast<double>(bytes) / 1000.0);
  } else {
    std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  }
  return text;
}

void append_row(std::string& out, std::string_view label, std::string_view value, std::string_view note = {}) {
  char text[256];
  std::snprintf(text, sizeof text, "  %-24.80s %12.40s", std::string(label).c_str(), std::string(value).c_str());
  out += text;
  if (!note.empty()) {
    out += "  ";
    out += note;
  }
  out += '\n';
}

}  // namespace

std::string to_json(const Report& report) {
  std::string out = "{\"file\":";
  append_outside_text(out, report.file);
  out += report.error ? ",\"ok\":false" : ",\"ok\":true";
  append_member(out, "request", report.request.is_nil() ? std::string() : to_text(report.request));
  append_member(out, "task", report.task);
  append_member(out, "node", report.node);
  if (report.parts > 0) append_member(out, "parts", report.parts);
  if (report.error) {
    out += ",\"error\":{\"code\":" + std::to_string(static_cast<unsigned>(report.error->code));
    append_member(out, "name", name_of(report.error->code));
    append_member(out, "detail", report.error->detail);
    out += '}';
  } else {
    append_outputs(out, report);
  }
  append_timing(out, report);
  out += ",\"bytes\":{";
  append_member(out, "plain", report.traffic.plain, true);
  append_member(out, "wire", report.traffic.wire);
  append_member(out, "sent", report.traffic.sent);
  append_member(out, "received", report.traffic.received);
  out += "},\"codecs\":{";
  bool first = true;
  for (const InputNote& input : report.inputs) {
    if (!first) out += ',';
    first = false;
    append_outside_text(out, input.name);
    out += ":[";
    for (std::size_t i = 0; i < input.codecs.size(); ++i) {
      if (i > 0) out += ',';
      append_json_string(out, input.codecs[i]);
    }
    out += ']';
  }
  out += "}}";
  return out;
}

std::string part_json(const Report& so_far, const Part& part) {
  std::string out = "{\"file\":";
  append_outside_text(out, so_far.file);
  append_member(out, "request", to_text(so_far.request));
  append_member(out, "task", so_far.task);
  append_member(out, "node", so_far.node);
  append_member(out, "part", part.number);
  out += ",\"outputs\":{";
  ByteView rest(part.payload);
  bool first = true;
  for (const wire::TensorSpec& spec : part.tensors) {
    if (!first) out += ',';
    first = false;
    append_output_begin(out, spec);
    std::string data;
    out += ",\"data\":";
    out += append_json_elements(data, spec, rest.first(spec.bytes)) ? data : "null";
    out += '}';
    rest = rest.subspan(spec.bytes);
  }
  out += "}}";
  return out;
}

std::string result_text(const Report& report) {
  constexpr std::size_t kPreview = 16;
  std::string out;
  for (std::size_t i = 0; i < report.result.tensors.size(); ++i) {
    const wire::TensorSpec& spec = report.result.tensors[i];
    const ByteView bytes = bytes_of(report, i);
    if (i < report.paths.size() && !report.paths[i].empty()) {
      out += spec.name + " " + type_and_shape(spec) + " → " + report.paths[i] + "\n";
      continue;
    }
    if (spec.dtype == wire::DType::bytes) {
      const auto elements = split_bytes(spec, bytes);
      if (!elements) {
        out += describe(elements.error()) + "\n";
        continue;
      }
      for (const std::string_view element : elements.value()) out += escaped(element, element.size() * 4 + 1) + "\n";
      continue;
    }
    const Outcome<std::string> values = preview(spec, bytes, kPreview);
    out += spec.name + " " + type_and_shape(spec) + ": " + (values ? values.value() : describe(values.error())) + "\n";
  }
  return out;
}

std::string error_text(const Report& report) {
  std::string out = "pi_client: " + escaped(report.file, 512) + ": ";
  out += name_of(report.error->code);
  if (!report.error->detail.empty()) out += ": " + escaped(report.error->detail, 1024);
  return out + "\n";
}

std::string table(const Report& report) {
  std::string out;
  append_row(out, "prepare", milliseconds_text(count(report.timing.prepare)));
  append_row(out, "locate", milliseconds_text(count(report.timing.locate)));
  append_row(out, "connect", milliseconds_text(count(report.timing.connect)), escaped(report.node, 64));
  append_row(out, "upload", milliseconds_text(count(report.timing.upload)));
  append_row(out, "queue", milliseconds_text(report.result.timing.queue_us));
  for (const wire::StepTiming& step : report.result.timing.steps) {
    std::string note = escaped(step.model, 64) + " " + escaped(step.version, 64);
    if (step.calls != 1) note += ", " + std::to_string(step.calls) + " calls";
    if (step.retries > 0) note += ", " + std::to_string(step.retries) + " made again";
    if (step.queue_us > 0) note += ", waited " + milliseconds_text(step.queue_us);
    append_row(out, "step " + escaped(step.step, 64), milliseconds_text(step.run_us), note);
  }
  if (report.parts > 0) append_row(out, "parts", std::to_string(report.parts));
  append_row(out, "reply", milliseconds_text(count(report.timing.reply)));
  append_row(out, "total", milliseconds_text(count(report.timing.total)));
  std::string ratio;
  if (report.traffic.wire > 0) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f : 1",
                  static_cast<double>(report.traffic.plain) / static_cast<double>(report.traffic.wire));
    ratio = text;
  }
  std::string how;
  for (const InputNote& input : report.inputs) {
    if (!how.empty()) how += "; ";
    how += input.name + ":";
    if (input.codecs.empty()) how += " stored";
    for (const std::string& codec : input.codecs) how += " " + codec;
  }
  append_row(out, "raw", bytes_text(report.traffic.plain));
  append_row(out, "uploaded", bytes_text(report.traffic.wire), ratio + (how.empty() ? "" : ", " + how));
  append_row(out, "sent, received", bytes_text(report.traffic.sent), "and " + bytes_text(report.traffic.received));
  return out;
}

}  // namespace gearbox::client
