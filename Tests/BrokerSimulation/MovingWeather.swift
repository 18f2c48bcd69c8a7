import Broker

/// The faults and choices of a run whose people move in from an old system.
///
/// A `Double` is the probability of the event in its name.
struct MovingWeather {
    /// The probability that a person signs in by moving a session of the old system.
    var moves = 0.0
    // The faults of the questions to the old system.
    /// The probability that a question provably fails to reach the old system.
    var notSent = 0.0
    /// The probability that the old system decides, and its answer is lost.
    var lost = 0.0
    /// The probability that the old system leaves a question undecided: 5xx, 401, a redirect, or a 404 that lacks the `id`.
    var undecided = 0.0
    /// The probability that the old system is silent.
    var hangs = 0.0
    // The old system's sessions.
    /// The probability that the user logs out at the old system, before or during the move.
    var logOuts = 0.0
    /// The probability that another app brings the same refresh token, as `tokens` or by another old session.
    var bothWays = 0.0
    /// The probability that the old system names another user than the provider.
    var strangers = 0.0
    /// The probability that the old session lacks a refresh token.
    var lacksToken = 0.0
    /// Whether the client has `subject: believed`.
    var isBelieved = false
    /// The moment of `until`; nil if the window for moves stays open during the run.
    var ends: Int?

    /// The time of `until`.
    var until: WallTime {
        WallTime(milliseconds: SimulatedProcess.begin + (ends.map(Int64.init) ?? 400 * 86_400_000))
    }

    /// Returns a mixture of the faults.
    static func mixed(_ random: inout SeededRandom) -> MovingWeather {
        var weather = MovingWeather()
        weather.moves = random.pick([0.3, 0.8])
        weather.notSent = random.pick([0, 0.1])
        weather.lost = random.pick([0, 0.2])
        weather.undecided = random.pick([0, 0.3])
        weather.hangs = random.pick([0, 0.1])
        weather.logOuts = random.pick([0, 0.15])
        weather.bothWays = random.pick([0, 0.2])
        weather.strangers = random.pick([0, 0, 0.15])
        weather.lacksToken = random.pick([0, 0, 0.15])
        weather.isBelieved = random.chance(0.5)
        weather.ends = random.pick([nil, nil, nil, 90_000])
        return weather
    }
}
