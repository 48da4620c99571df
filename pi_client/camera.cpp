#include "camera.hpp"

#include <algorithm>

#include "gearbox/base/text.hpp"
#include "gearbox/link/upload.hpp"
#include "pause.hpp"

namespace gearbox::client {

namespace {

constexpr unsigned kBadInARow = 5;  // cut pictures, or the same one again: then the source is opened anew

class Camera final : public Capture {
 public:
  Camera(std::unique_ptr<CaptureSource> source, CameraPace pace, CaptureEnds ends)
      : source_(std::move(source)), pace_(pace), ends_(std::move(ends)) {}

  void run() override {
    unsigned failures = 0;
    while (!ends_.stop->stopped()) {
      const Outcome<void> opened = source_->open();
      const Outcome<void> ended = opened ? shoot_on(failures) : opened;
      source_->close();
      if (ended) return;
      tell(describe(ended.error()));
      const milliseconds pause = pause_before_retry(failures++, pace_.shortest_pause, pace_.longest_pause, {});
      if (!ends_.stop->wait(after(Clock::now(), pause))) return;
    }
  }

 private:
  /// Until the bell, or until the source has to be opened anew: then with the reason.
  Outcome<void> shoot_on(unsigned& failures) {
    unsigned bad = 0;
    Instant next = Clock::now();
    while (ends_.stop->wait(next)) {
      next = std::max(Clock::now(), after(next, pace_.every));
      Outcome<CaptureSource::Shot> shot = source_->shoot(*ends_.stop);
      if (!shot && shot.error().code == Errc::cancelled) return done();
      if (!shot) return std::move(shot).error();
      const Outcome<void> taken = take(std::move(shot).value());
      if (taken) {
        bad = failures = 0;
        tell(std::string());
      } else if (taken.error().code == Errc::no_space || taken.error().code == Errc::too_large) {
        tell("the picture is not kept: " + taken.error().detail);
      } else if (++bad >= kBadInARow) {
        return taken;
      } else {
        tell(describe(taken.error()));
      }
    }
    return done();
  }

  Outcome<void> take(CaptureSource::Shot shot) {
    if (source_->is_live()) {
      link::Digest digest;
      digest.update(shot.file);
      const std::string now = digest.hex();
      if (now == last_) return Error{Errc::bad_picture, shot.name + ": the same picture again, to the last bit"};
      last_ = now;
    }
    BOOST_OUTCOME_TRY(const SpoolFill::Filled filled, ends_.fill->add(shot.name, std::move(shot.file)));
    ends_.spooled();
    return done();
  }

  /// A trouble once, and its end.
  void tell(const std::string& trouble) {
    if (trouble == told_) return;
    ends_.remark(trouble.empty() ? "the camera gives pictures again" : "camera: " + escaped(trouble, 1024));
    told_ = trouble;
  }

  std::unique_ptr<CaptureSource> source_;
  const CameraPace pace_;
  CaptureEnds ends_;
  std::string last_;  // digest
  std::string told_;
};

}  // namespace

std::unique_ptr<Capture> make_camera(std::unique_ptr<CaptureSource> source, CameraPace pace, CaptureEnds ends) {
  return std::make_unique<Camera>(std::move(source), pace, std::move(ends));
}

}  // namespace gearbox::client
