import Synchronization

/// The short-lived memory that a process has of tokens for other APIs: which the provider refuses, which sessions' upstreams
/// force each other's, which use was noted.
///
/// What is forgotten, by a restart or because there is too much, costs a call.
final class AudienceMemory: Sendable {
    /// The reason for which a token is not asked for now.
    enum Refusal: Sendable, Equatable {
        /// The provider refuses the target.
        case refused
        /// The provider did not bind the last one; it is asked again after so long.
        case notBound(for: Duration)
    }

    /// A target of a client, of whatever session.
    struct Place: Hashable {
        let provider: ProviderName
        let client: ClientName
        let target: TokenTarget
    }

    /// The refreshes that upstreams have forced of one session.
    private struct Forced {
        /// The audience of the last one; nil for the session's own access token.
        var audience: Digest?
        var at: Duration
        /// The number of times that it was of another audience than the one before.
        var changes = 0
    }

    private struct State {
        var refused: [Digest: Duration] = [:]
        var unbound: [Digest: Duration] = [:]
        var places: [Place: Duration] = [:]
        var forced: [Digest: Forced] = [:]
        var used: [Digest: Duration] = [:]
    }

    /// The time for which a session is not asked for again that was refused.
    static let refusal = Duration.seconds(60)
    /// The time for which none is asked for again of the client's.
    static let pause = Duration.seconds(5)
    /// The time after which a token that was not bound is asked for again.
    static let unbound = Duration.seconds(30)
    /// Forced refreshes that are further apart have nothing to do with each other.
    static let quiet = Duration.seconds(60)
    /// So many changes from one audience to another are too many.
    static let changes = 3
    /// A use is noted so often.
    static let noting = Duration.seconds(60)
    private static let capacity = 20_000

    /// Guards all of it.
    private let state = Mutex(State())

    private static func note<Key>(_ moment: Duration, _ key: Key, in moments: inout [Key: Duration]) {
        if moments.count >= capacity { moments = [:] }
        moments[key] = moment
    }

    // MARK: Refusals

    /// Returns why a session's token is not asked for now, or nil.
    func refusal(_ key: Digest, _ place: Place, at moment: Duration) -> Refusal? {
        state.withLock { state in
            if let until = state.unbound[key] {
                if moment < until { return .notBound(for: until - moment) }
                state.unbound[key] = nil
            }
            if let until = state.refused[key] {
                if moment < until { return .refused }
                state.refused[key] = nil
            }
            return state.places[place].map { moment < $0 } ?? false ? .refused : nil
        }
    }

    /// Notes that a call begins: where the client's target was refused before, the others wait for what comes of this one.
    func begins(_ place: Place, at moment: Duration) {
        state.withLock { state in
            if state.places[place] != nil { state.places[place] = moment + Self.pause }
        }
    }

    func refused(_ key: Digest, _ place: Place, at moment: Duration) {
        state.withLock { state in
            Self.note(moment + Self.refusal, key, in: &state.refused)
            Self.note(moment + Self.pause, place, in: &state.places)
        }
    }

    func notBound(_ key: Digest, at moment: Duration) {
        state.withLock { Self.note(moment + Self.unbound, key, in: &$0.unbound) }
    }

    func granted(_ key: Digest, _ place: Place) {
        state.withLock { state in
            state.refused[key] = nil
            state.unbound[key] = nil
            state.places[place] = nil
        }
    }

    // MARK: Upstreams that force each other's

    /// Throws where a session's upstreams force each other's tokens, until none has asked for as long as that takes.
    func checkForced(_ session: Digest, at moment: Duration) throws(BrokerProblem) {
        let isRefused = state.withLock { state in
            guard let last = state.forced[session], moment - last.at < Self.quiet else { return false }
            guard last.changes >= Self.changes else { return false }
            state.forced[session]?.at = moment
            return true
        }
        guard !isRefused else {
            throw BrokerProblem(
                .providerError, privateDetail: "the session's upstreams refuse each newer token in turn")
        }
    }

    /// Notes that a refresh was forced; returns whether it is the one with which there are too many.
    func forced(_ session: Digest, _ audience: Digest?, at moment: Duration) -> Bool {
        state.withLock { state in
            guard var last = state.forced[session], moment - last.at < Self.quiet else {
                if state.forced.count >= Self.capacity { state.forced = [:] }
                state.forced[session] = Forced(audience: audience, at: moment)
                return false
            }
            last.at = moment
            let isChange = last.audience != audience
            if isChange { last.changes += 1 }
            last.audience = audience
            state.forced[session] = last
            return isChange && last.changes == Self.changes
        }
    }

    // MARK: Use

    /// Returns whether a use is to be noted: none was a short while ago.
    func notes(_ key: Digest, at moment: Duration) -> Bool {
        state.withLock { state in
            if let last = state.used[key], moment - last < Self.noting { return false }
            Self.note(moment, key, in: &state.used)
            return true
        }
    }
}
