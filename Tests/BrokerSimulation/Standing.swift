import Broker

/// The access tokens that sessions have or had in the store.
///
/// An app may get only a token that was stored at the moment of its call, or that a cache may still have.
final class Standing {
    /// The greatest age of a cached session.
    static let cacheAge = 5_000
    /// The longest time between two reads of a session's refresh token after a refused step-up, in milliseconds.
    ///
    /// The time includes two store calls.
    private static let betweenLooks = 400

    /// An access token, and the end of its time in the store; nil while it is stored.
    private struct Stored {
        let text: String
        var until: Int?

        func stood(since moment: Int) -> Bool { until.map { $0 >= moment } ?? true }
    }

    /// The tokens for one API that a session has had.
    private struct Kept {
        let session: Digest
        var tokens: [Stored] = []
    }

    private var own: [Digest: [Stored]] = [:]
    /// The tokens by the keys of their rows.
    private var kept: [Digest: Kept] = [:]
    /// The sessions with an unchecked subject, and the time when the subject became unchecked.
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

    /// Notes a new access token of a session for the session's own API.
    func stores(_ text: String, of session: Digest, at moment: Int) {
        Self.add(text, to: &own[session, default: []], at: moment)
    }

    /// Notes a new access token of a session for another API.
    func keeps(_ text: String, as key: Digest, of session: Digest, at moment: Int) {
        Self.add(text, to: &kept[key, default: Kept(session: session)].tokens, at: moment)
    }

    /// Notes that a session's tokens for other APIs are gone.
    func drops(_ session: Digest, at moment: Int) {
        for key in kept.keys where kept[key]?.session == session {
            if var tokens = kept[key]?.tokens {
                Self.end(&tokens, at: moment)
                kept[key]?.tokens = tokens
            }
        }
    }

    /// Returns whether a session had this access token for its own API at a moment, or later.
    func hadOwn(_ text: String, of session: Digest, since moment: Int) -> Bool {
        own[session, default: []].contains { $0.text == text && $0.stood(since: moment) }
    }

    /// Returns whether a session had this access token for another API at a moment, or later.
    func hadKept(_ text: String, of session: Digest, since moment: Int) -> Bool {
        kept.values.contains { kept in
            kept.session == session && kept.tokens.contains { $0.text == text && $0.stood(since: moment) }
        }
    }

    /// Returns whether a session's own token was replaced twice within the time between two reads, so that a read may miss one.
    func hadTwoReplacementsAtOnce(_ session: Digest, in period: Range<Int>) -> Bool {
        let moments = own[session, default: []].compactMap(\.until).filter(period.contains)
        return zip(moments, moments.dropFirst()).contains { $1 - $0 < Self.betweenLooks }
    }

    // MARK: Subjects

    /// Notes whether the subject of a session's tokens has yet to be checked.
    func marks(_ session: Digest, isUnchecked: Bool, at moment: Int) {
        unchecked[session] = isUnchecked ? unchecked[session] ?? moment : nil
    }

    /// Returns the time when the subject of a session's tokens became unchecked, or nil.
    func uncheckedSince(_ session: Digest) -> Int? { unchecked[session] }
}
