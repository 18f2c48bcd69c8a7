import Synchronization

/// The short-lived memory of a process about tokens for other APIs: refusals by the provider, and uses that were noted.
///
/// If an entry is lost, the cost is one more provider call or store write. Entries are lost at a restart, and all are dropped
/// when there are too many.
final class TargetMemory: Sendable {
    /// The reason why a token is not requested now.
    enum Refusal: Sendable, Equatable {
        /// The provider refuses the target.
        case refused
        /// The last answer was unusable. The provider may be called again after this time.
        case rests(for: Duration)
    }

    /// A target of a client, which all sessions of the client share.
    struct Place: Hashable {
        let provider: ProviderName
        let client: ClientName
        let target: TokenTarget
    }

    /// The provider's refusal of a target in one session.
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

    /// The time during which a refused target is not requested again for the same session.
    static let refusal = Duration.seconds(60)
    /// The time during which a refused target is not requested for the client's other sessions.
    static let pause = Duration.seconds(5)
    /// The pause of a target after an answer whose access token was unbound or unusable, but whose refresh token was valid.
    static let withheld = Duration.seconds(30)
    /// The shortest time between two uses of a token that are written to the store.
    static let noting = Duration.seconds(60)
    private static let capacity = 20_000

    /// Guards the whole memory.
    private let state = Mutex(State())

    private static func note<Key, Value>(_ moment: Value, _ key: Key, in moments: inout [Key: Value]) {
        if moments.count >= capacity { moments = [:] }
        moments[key] = moment
    }

    // MARK: Refusals

    /// Returns the reason why a session's token is not requested now, or nil.
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
            // When the pause ends, the next caller tests the target again, and its call renews the pause for the others
            // (`begins`). If no caller comes within another `pause`, the refusal is dropped.
            if moment - until >= Self.pause { state.places[place] = nil }
            return moment < until ? .refused : nil
        }
    }

    /// Notes that a provider call for a target begins.
    ///
    /// If the provider has refused this target for the whole client, the client's other sessions now pause again, until the
    /// result of this call is known.
    func begins(_ place: Place, at moment: Duration) {
        state.withLock { state in
            if state.places[place] != nil { state.places[place] = moment + Self.pause }
        }
    }

    /// Notes that the provider refused a session's target.
    ///
    /// With `ofClient`, the refusal concerns the client's configuration, so it also holds for the client's other sessions for
    /// five seconds.
    ///
    /// A refusal that concerns one user ends the pause of the other sessions, which the start of this call may have renewed.
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

    /// Notes that the provider's answer about a target was unusable.
    func rests(_ key: Digest, for rest: Duration, at moment: Duration) {
        state.withLock { state in
            Self.note(max(moment + rest, state.rests[key] ?? moment), key, in: &state.rests)
        }
    }

    /// Forgets the refusals of a session, because its user has signed in again and may have consented.
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

    /// Returns whether the use of a token is to be written to the store.
    ///
    /// The use is written if the last written use is old enough.
    func notes(_ key: Digest, at moment: Duration) -> Bool {
        state.withLock { state in
            if let last = state.used[key], moment - last < Self.noting { return false }
            Self.note(moment, key, in: &state.used)
            return true
        }
    }
}
