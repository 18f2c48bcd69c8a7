/// Decides whether an app may move its session now (`until` of `import_tokens` and `move_in`).
struct ImportWindow: Sendable {
    let context: BrokerContext

    /// Returns the problem for an import that is still to begin; nil if the client accepts imports now.
    ///
    /// If there is a problem, it is thrown unless the import with this key has begun. An import that has begun goes on after
    /// the time is over, and is answered from its row after the configuration has changed. Otherwise, an app that repeats its
    /// post because an answer was lost would lose its session.
    func refusal(
        isOffered: Bool, until: WallTime?, key: Digest?
    ) async throws(BrokerProblem) -> BrokerProblem? {
        let isKnown = context.may(.begin)
        let isBefore = until.map { context.clock.now() <= $0 } ?? true
        // If there is an end, the time has to be known.
        if isOffered, until == nil || isKnown && isBefore { return nil }
        let refusal =
            !isOffered
            ? BrokerProblem(.clientNotAllowed, with: .importRefused(.notOpen))
            : isKnown ? BrokerProblem(.clientNotAllowed, with: .importRefused(.closed)) : .clockDoubted
        guard let key else { throw refusal }
        do throws(StoreFailure) {
            if let row = try await context.store.exchange(key), row.hasBegunImport { return refusal }
        } catch { throw BrokerProblem(error) }
        throw refusal
    }
}

extension ExchangeRow {
    /// Whether the app's token may have reached the provider, or its fate is known.
    ///
    /// A released import is still to begin if all its calls failed before they were sent, or were answered.
    var hasBegunImport: Bool { outcome != .released || imported?.pairKeptAt != nil || attempts > 0 }
}

extension ExchangePlan {
    /// Returns the problem if the import's next call is refused now; `calls` is the number of calls with this one.
    ///
    /// The row belongs to the token, and any client may have begun it. So a client that lacks the setting is refused each
    /// call, and after the end a client makes only the confirming call. Otherwise, a thief of a confidential client's token
    /// could begin the import with another client, and go on with the confidential one.
    func importRefusal(calls: Int) -> BrokerProblem? {
        let isOffered = isLegacy ? client.moveIn != nil : client.importTokens
        return isOffered && calls >= ImportMarks.maximumCalls ? nil : importRefusal
    }
}
