/// The settings of the log (`log`).
///
/// Lines are JSON on standard error. They contain no secrets under any of these settings.
struct LogSettings: Sendable {
    /// The lowest level that is written.
    enum Level: String, Sendable, CaseIterable { case trace, debug, info, notice, warning, error }

    let level: Level
    /// Whether each request gets a line.
    let requests: Bool

    init(_ section: ConfigSection) {
        level = section.choice("level", as: Level.self) ?? .info
        requests = section.flag("requests", default: true)
    }
}
