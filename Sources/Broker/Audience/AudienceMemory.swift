import Synchronization

/// The short-lived memory that a process has of tokens for other APIs: which the provider refuses, which use was noted.
///
/// What is forgotten, by a restart or because there is too much, costs a call.
final class AudienceMemory: Sendable {
    /// The reason for which a token is not asked for now.
    enum Refusal: Sendable, Equatable {
        /// The provider refuses the target.
        case refused
        /// The last answer was of no use; the provider is asked again after so long.
        case rests(for: Duration)
    }

    /// A target of a client, of whatever session.
    struct Place: Hashable {
        let provider: ProviderName
        let client: ClientName
        let target: TokenTarget
    }

    /// A refusal of a session's target.
    private struct Refused {
        let session: Digest
        let until: Duration
    }

    private struct State {
        var refused: [Digest: Refused] = [:]
        var rests: [Digest: Duration] = [:]
        var places: [Place: Duration] = [:]
        var used: [Digest: Duration] = [:]
    }

    /// The time for which a session is not asked for again that was refused.
    static let refusal = Duration.seconds(60)
    /// The time for which none is asked for again of the client's.
    static let pause = Duration.seconds(5)
    /// The time after which a token is asked for again that came unbound, or of no use, with a good refresh token.
    static let withheld = Duration.seconds(30)
    /// A use is noted so often.
    static let noting = Duration.seconds(60)
    private static let capacity = 20_000

    /// Guards all of it.
    private let state = Mutex(State())

    private static func note<Key, Value>(_ moment: Value, _ key: Key, in moments: inout [Key: Value]) {
        if moments.count >= capacity { moments = [:] }
        moments[key] = moment
    }

    // MARK: Refusals

    /// Returns why a session's token is not asked for now, or nil.
    func refusal(_ key: Digest, _ place: Place, at moment: Duration) -> Refusal? {
        state.withLock { state in
            if let until = state.rests[key] {
                if moment < until { return .rests(for: until - moment) }
                state.rests[key] = nil
            }
            if let refused = state.refused[key] {
                if moment < refused.until { return .refused }
                state.refused[key] = nil
            }
            guard let until = state.places[place] else { return nil }
            // One call tells anew, and the others wait for it; a refusal of long ago makes nobody wait.
            if moment - until >= Self.pause { state.places[place] = nil }
            return moment < until ? .refused : nil
        }
    }

    /// Notes that a call begins: where the client's target was refused a short while ago, the others wait for what comes of this
    /// one.
    func begins(_ place: Place, at moment: Duration) {
        state.withLock { state in
            if state.places[place] != nil { state.places[place] = moment + Self.pause }
        }
    }

    /// Notes a refusal; one that is `ofClient` speaks of the client's configuration, and holds for its other sessions for a moment.
    ///
    /// A refusal of one user ends the wait of the others, which the beginning of its call may have renewed.
    func refused(_ key: Digest, of session: Digest, _ place: Place, ofClient: Bool, at moment: Duration) {
        state.withLock { state in
            Self.note(Refused(session: session, until: moment + Self.refusal), key, in: &state.refused)
            if ofClient {
                Self.note(moment + Self.pause, place, in: &state.places)
            } else {
                state.places[place] = nil
            }
        }
    }

    /// Notes that an answer was of no use.
    func rests(_ key: Digest, for rest: Duration, at moment: Duration) {
        state.withLock { state in
            Self.note(max(moment + rest, state.rests[key] ?? moment), key, in: &state.rests)
        }
    }

    /// Forgets what was refused to a session: its user has signed in anew, and may have consented.
    func forget(_ session: Digest) {
        state.withLock { state in state.refused = state.refused.filter { $0.value.session != session } }
    }

    func granted(_ key: Digest, _ place: Place) {
        state.withLock { state in
            state.refused[key] = nil
            state.rests[key] = nil
            state.places[place] = nil
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
