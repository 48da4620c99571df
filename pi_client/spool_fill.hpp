// spool_fill.hpp: from a picture's bytes to an item in the spool: looked at, coded where that saves bytes, given its
// request id for good.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "spool.hpp"
#include "spool_options.hpp"

namespace gearbox::client {

/// Blocking; any thread, one call at a time.
class SpoolFill {
 public:
  /// Reads the steps' file, if the options name one. `spool` outlives it. Errors: bad_input.
  static Outcome<SpoolFill> create(Spool* spool, const RequestOptions& request);

  struct Filled {
    RequestId id;
    std::vector<Spooled> dropped;  // made room for it
  };
  /// `before_seen`: see Spool::add. Errors: those of prepare(): the picture cannot be sent, now or ever; those of
  /// Spool::add.
  Outcome<Filled> add(const std::string& name, Bytes file, std::optional<SourceFile> source = std::nullopt,
                      const std::function<void()>& before_seen = {});

 private:
  SpoolFill(Spool* spool, RequestOptions request, steps::StepList own)
      : spool_(spool), request_(std::move(request)), own_(std::move(own)) {}
  Spool* spool_;
  RequestOptions request_;
  steps::StepList own_;
};

}  // namespace gearbox::client
