import Broker

/// The access tokens that sessions have, or had, in the store.
///
/// An app may get a token only if the token was stored when the call began, or if a cache may still have it.
final class Standing {
    /// The longest time that a session stays in a cache, in milliseconds.
    static let cacheAge = 5_000
    /// The longest time between the two reads of a session's refresh token after a refused step-up, in milliseconds.
    ///
    /// A process reads the token twice, to find out whether the step-up's answer repeated it. The time includes two store
    /// calls.
    private static let betweenLooks = 400

    /// An access token, and the moment when it was replaced or removed in the store; nil while it is stored.
    private struct Stored {
        let text: String
        var until: Int?

        func stood(since moment: Int) -> Bool { until.map { $0 >= moment } ?? true }
    }

    /// The access tokens that a session has had for one API other than its own.
    private struct Kept {
        let session: Digest
        var tokens: [Stored] = []
    }

    private var own: [Digest: [Stored]] = [:]
    /// The access tokens for other APIs, by the key of their row in the store.
    private var kept: [Digest: Kept] = [:]
    /// The moments when a refresh replaced the refresh token of a session in the store.
    private var replaced: [Digest: [Int]] = [:]
    /// The sessions whose tokens have a subject that was not checked yet, and the moment since when this is so.
    private var unchecked: [Digest: Int] = [:]

    private static func add(_ text: String, to tokens: inout [Stored], at moment: Int) {
        if let last = tokens.last, last.until == nil, last.text == text { return }
        end(&tokens, at: moment)
        tokens.append(Stored(text: text))
    }

    private static func end(_ tokens: inout [Stored], at moment: Int) {
        guard let last = tokens.indices.last, tokens[last].until == nil else { return }
        tokens[last].until = moment
    }

    /// Notes that a new access token for the session's own API was stored.
    func stores(_ text: String, of session: Digest, at moment: Int) {
        Self.add(text, to: &own[session, default: []], at: moment)
    }

    /// Notes that a refresh of a session was stored, for its own token or for another API's.
    func replaces(_ session: Digest, at moment: Int) { replaced[session, default: []].append(moment) }

    /// Notes that a new access token for another API was stored.
    func keeps(_ text: String, as key: Digest, of session: Digest, at moment: Int) {
        Self.add(text, to: &kept[key, default: Kept(session: session)].tokens, at: moment)
    }

    /// Notes that the access tokens of a session for other APIs were removed from the store.
    func drops(_ session: Digest, at moment: Int) {
        for key in kept.keys where kept[key]?.session == session {
            if var tokens = kept[key]?.tokens {
                Self.end(&tokens, at: moment)
                kept[key]?.tokens = tokens
            }
        }
    }

    /// Returns whether this access token for the session's own API was stored at a given moment, or later.
    func hadOwn(_ text: String, of session: Digest, since moment: Int) -> Bool {
        own[session, default: []].contains { $0.text == text && $0.stood(since: moment) }
    }

    /// Returns whether this access token for another API was stored at a given moment, or later.
    func hadKept(_ text: String, of session: Digest, since moment: Int) -> Bool {
        kept.values.contains { kept in
            kept.session == session && kept.tokens.contains { $0.text == text && $0.stood(since: moment) }
        }
    }

    /// Returns whether two refreshes replaced a session's refresh token so fast that a process, which reads the token twice, may
    /// have missed one.
    func hadTwoReplacementsAtOnce(_ session: Digest, in period: Range<Int>) -> Bool {
        let moments = replaced[session, default: []].filter(period.contains)
        return zip(moments, moments.dropFirst()).contains { $1 - $0 < Self.betweenLooks }
    }

    // MARK: Subjects

    /// Notes whether the broker has still to check the subject of a session's tokens.
    func marks(_ session: Digest, isUnchecked: Bool, at moment: Int) {
        unchecked[session] = isUnchecked ? unchecked[session] ?? moment : nil
    }

    /// Returns the moment since when the subject of a session's tokens is unchecked; nil if it was checked.
    func uncheckedSince(_ session: Digest) -> Int? { unchecked[session] }
}
