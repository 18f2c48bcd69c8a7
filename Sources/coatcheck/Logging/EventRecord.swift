import Broker

/// The metric and the log line of one event.
///
/// An event may have only one of the two. A new event without a record does not compile.
struct EventRecord: Sendable {
    /// A log line, without its time.
    struct Line: Sendable {
        let level: LogSettings.Level
        let message: String
        let members: [(String, String)]
    }

    /// The counter's name, between `coatcheck_` and `_total`; nil if the event is not counted.
    var metric: String?
    var labels: [(String, String)] = []
    /// The number by which the counter grows.
    var count = 1
    var line: Line?
    /// The provider, if only its first event gets a log line; nil if every event gets one.
    ///
    /// The counter counts all events.
    var isOnceFor: ProviderName?
}

extension EventRecord {
    /// Creates the record of an event.
    init(_ event: BrokerEvent) {
        self =
            switch event {
            case .loginStarted(let provider, let client): .loginStarted(provider, client)
            case .loginRefused(let provider, let client, let code, let detail):
                .loginRefused(provider, client, code, detail)
            case .issuerUnchecked(let provider): .issuerUnchecked(provider)
            case .loginBurned(let provider, let client): .loginBurned(provider, client)
            case .loginSucceeded(let provider, let client, let session): .loginSucceeded(provider, client, session)
            case .steppedUp(let provider, let client, let session): .steppedUp(provider, client, session)
            case .sidUnusable(let provider, let client, let session): .sidUnusable(provider, client, session)
            case .exchangeReplayed(let provider): .exchangeReplayed(provider)
            case .importUnproven(let provider, let client): .importUnproven(provider, client)
            case .exchangeFailed(let provider, let client, let failure): .exchangeFailed(provider, client, failure)
            case .imported(let provider, let client, let way, let result): .imported(provider, client, way, result)
            case .oldSystemAnswered(let provider, let client, let result, let detail):
                .oldSystemAnswered(provider, client, result, detail)
            case .registrationStarted(let provider, let client): .registrationStarted(provider, client)
            case .registrationFinished(let provider, let client, let result):
                .registrationFinished(provider, client, result)
            case .proofJudged(let provider, let client, let result): .proofJudged(provider, client, result)
            case .presenceJudged(let provider, let client, let result): .presenceJudged(provider, client, result)
            case .presenceKeyChanged(let provider, let client, let session):
                .presenceKeyChanged(provider, client, session)
            case .refreshWaited(let provider, let client): .refreshWaited(provider, client)
            case .refreshShared(let provider, let client): .refreshShared(provider, client)
            case .refreshed(let provider, let client, let session): .refreshed(provider, client, session)
            case .refreshFailed(let provider, let client, let session, let reason, let counted):
                .refreshFailed(provider, client, session, reason, counted)
            case .refreshEndedSession(let provider, let client, let session, let reason):
                .refreshEndedSession(provider, client, session, reason)
            case .tokenOfNoUse(let provider, let client, let session, let detail):
                .tokenOfNoUse(provider, client, session, detail)
            case .tokenNotBound(let provider, let client, let session): .tokenNotBound(provider, client, session)
            case .proofRefused(let provider, let client, let session, let detail):
                .proofRefused(provider, client, session, detail)
            case .refreshedTokenUnverified(let provider, let client, let session, let detail):
                .refreshedTokenUnverified(provider, client, session, detail)
            case .targetRefused(let provider, let client, let session, let detail):
                .targetRefused(provider, client, session, detail)
            case .upstreamKeepsRefusing(let provider, let client, let session, let upstream, let pause):
                .upstreamKeepsRefusing(provider, client, session, upstream, pause)
            case .accessTokenHandedOut(let provider, let client, let session):
                .accessTokenHandedOut(provider, client, session)
            case .childMade(let provider, let client, let kind, let session):
                .childMade(provider, client, kind, session)
            case .sessionEnded(let reason, let count, let session): .sessionEnded(reason, count, session)
            case .revocation(let provider, let result): .revocation(provider, result)
            case .providerSessionEnd(let provider, let result): .providerSessionEnd(provider, result)
            case .logoutToken(let provider, let result): .logoutToken(provider, result)
            case .adminAction(let actor, let action): .adminAction(actor, action)
            case .rowDidNotOpen(let kind, let unknownKey): .rowDidNotOpen(kind, unknownKey)
            case .storeFailed(let operation, let detail): .storeFailed(operation.description, detail)
            }
    }

    // MARK: Building a record

    /// Creates a record with a counter.
    static func counted(_ metric: String, _ labels: [(String, String)]) -> EventRecord {
        EventRecord(metric: metric, labels: labels)
    }

    /// Creates a record with a counter for a client.
    static func counted(
        _ metric: String, _ provider: ProviderName, _ client: ClientName, _ further: [(String, String)] = []
    ) -> EventRecord {
        EventRecord(metric: metric, labels: members(provider, client) + further)
    }

    /// Creates a record without a counter.
    static var uncounted: EventRecord { EventRecord(metric: nil, labels: []) }

    /// Returns the record with a log line.
    func logged(_ level: LogSettings.Level, _ message: String, _ members: [(String, String)]) -> EventRecord {
        var record = self
        record.line = Line(level: level, message: message, members: members)
        return record
    }

    /// Returns the record with a log line about a client and, if `session` is given, about one of its sessions.
    func logged(
        _ level: LogSettings.Level, _ message: String, _ provider: ProviderName?, _ client: ClientName?,
        session: SessionHandle? = nil, _ further: [(String, String)] = []
    ) -> EventRecord {
        let handle = session.map { [("session", $0.text)] } ?? []
        var record = self
        record.line = Line(
            level: level, message: message, members: Self.members(provider, client) + handle + further)
        return record
    }

    private static func members(_ provider: ProviderName?, _ client: ClientName?) -> [(String, String)] {
        (provider.map { [("provider", $0.text)] } ?? []) + (client.map { [("client", $0.text)] } ?? [])
    }
}
