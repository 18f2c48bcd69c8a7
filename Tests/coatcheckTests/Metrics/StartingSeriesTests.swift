import Broker
import Testing

@testable import coatcheck

@Suite("Counters that exist from the start", .timeLimit(.minutes(2)))
struct StartingSeriesTests {
    private func registered() -> MetricsRegistry {
        let metrics = MetricsRegistry()
        StartingSeries.register(
            providers: ["oidc", "zephr"], clients: [("oidc", "ios"), ("zephr", "ios")], upstreams: ["api"], metrics)
        return metrics
    }

    @Test("The program starts → the counter of every event exists, with zero")
    func events() throws {
        let metrics = registered()
        let log = ProcessLog(level: .error, now: { WallTime(seconds: 0) }, emit: { _ in })
        let sink = EventLog(log: log, metrics: metrics).sink
        let (provider, client) = (ProviderName(unchecked: "oidc"), ClientName(unchecked: "ios"))
        let session = try #require(SessionHandle("ses_0123456789abcdefghijkl"))
        let failure = ProviderFailure.lost(detail: "")
        let events: [BrokerEvent] = [
            .loginStarted(provider: provider, client: client),
            .loginRefused(provider: provider, client: client, code: .providerUnavailable, detail: ""),
            .loginRefused(provider: nil, client: nil, code: .stateMismatch, detail: ""),
            .issuerUnchecked(provider: provider), .loginBurned(provider: provider, client: client),
            .loginSucceeded(provider: provider, client: client, session: session),
            .sidUnusable(provider: provider, client: client, session: session),
            .exchangeReplayed(provider: provider),
            .importUnproven(provider: provider, client: client),
            .exchangeFailed(provider: provider, client: client, failure: failure),
            .registrationStarted(provider: provider, client: client),
            .registrationFinished(provider: provider, client: client, result: "registered"),
            .refreshed(provider: provider, client: client, session: session),
            .refreshFailed(
                provider: provider, client: client, session: session, reason: failure.shortDescription, counted: nil),
            .refreshedTokenUnverified(provider: provider, client: client, session: session, detail: ""),
            .tokenNotBound(provider: provider, client: client, session: session),
            .refreshWaited(provider: provider, client: client), .refreshShared(provider: provider, client: client),
            .accessTokenHandedOut(provider: provider, client: client, session: session),
            .revocation(provider: provider, result: "done"), .providerSessionEnd(provider: provider, result: "done"),
            .logoutToken(provider: provider, result: "accepted"), .adminAction(actor: "ops", action: "end_session"),
            .rowDidNotOpen(kind: .tokens, unknownKey: true), .storeFailed(operation: "sweep", detail: ""),
        ]
        let reasons: [EndReason] = [.refreshLost, .grantRevoked, .subjectChanged, .tokenExpired]
        let before = metrics.seriesCount
        for event in events { sink.emit(event) }
        for reason in reasons {
            sink.emit(.refreshEndedSession(provider: provider, client: client, session: session, reason: reason))
        }
        for reason in EndReason.allCases { sink.emit(.sessionEnded(reason: reason.shown, count: 1, session: nil)) }
        RelayMetrics(metrics).observer(UpstreamName(unchecked: "api"), .zero, nil)
        #expect(metrics.seriesCount == before)
    }

    @Test("A client's apps may import tokens → the counter of each result exists, with zero; else they are missing")
    func imports() throws {
        for mayImport in [true, false] {
            let provider = ProviderName(unchecked: "clover")
            let metrics = MetricsRegistry()
            StartingSeries.registerImports(
                provider, ClientProfile(name: ClientName(unchecked: "ios"), redirectURIs: [], importTokens: mayImport),
                metrics)
            let before = metrics.seriesCount
            #expect(before == (mayImport ? ImportResult.allCases.count : 0))
            let log = ProcessLog(level: .error, now: { WallTime(seconds: 0) }, emit: { _ in })
            let sink = EventLog(log: log, metrics: metrics).sink
            for result in ImportResult.allCases {
                sink.emit(
                    .imported(
                        provider: provider, client: ClientName(unchecked: "ios"), way: .tokens, result: result))
            }
            #expect(metrics.seriesCount == ImportResult.allCases.count)
            #expect(metrics.text().contains("# HELP coatcheck_moved_total "))
        }
    }

    @Test("A client has `move_in` → the counters of its ways and of its old system exist, with zero")
    func moves() {
        for (cookie, ways) in [(nil, 1), ("sid", 2)] as [(String?, Int)] {
            let (provider, name) = (ProviderName(unchecked: "oidc"), ClientName(unchecked: "ios"))
            var client = ClientProfile(name: name, redirectURIs: [])
            client.moveIn = MoveInPolicy(until: WallTime(seconds: 0), cookie: cookie)
            let metrics = MetricsRegistry()
            StartingSeries.registerImports(provider, client, metrics)
            let before = metrics.seriesCount
            #expect(before == ways * ImportResult.allCases.count + OldSystemResult.allCases.count)
            let log = ProcessLog(level: .error, now: { WallTime(seconds: 0) }, emit: { _ in })
            let sink = EventLog(log: log, metrics: metrics).sink
            for way in ImportWay.allCases where way == .legacy || way == .cookie && cookie != nil {
                for result in ImportResult.allCases {
                    sink.emit(.imported(provider: provider, client: name, way: way, result: result))
                }
            }
            for result in OldSystemResult.allCases {
                sink.emit(.oldSystemAnswered(provider: provider, client: name, result: result, detail: nil))
            }
            #expect(metrics.seriesCount == before)
            #expect(metrics.text().contains("# HELP coatcheck_old_system_answers_total "))
        }
    }

    @Test(
        "Starting series are registered twice → no more series; registered for a hundred clients → at most the limit of series"
    )
    func bounded() {
        let metrics = registered()
        let before = metrics.seriesCount
        StartingSeries.register(
            providers: ["oidc", "zephr"], clients: [("oidc", "ios"), ("zephr", "ios")], upstreams: ["api"], metrics)
        #expect(metrics.seriesCount == before)
        StartingSeries.register(
            providers: [], clients: (0..<100).map { ("p", "c\($0)") }, upstreams: [], metrics)
        #expect(metrics.seriesCount(of: "coatcheck_logins_total") == StartingSeries.limit)
        // Each client's successful logins have a series, even if the limit leaves out other series.
        #expect(metrics.text().contains(#"coatcheck_logins_total{provider="p",client="c99",result="succeeded"} 0"#))
    }

    @Test("Every counter that exists from the start → has a help text")
    func sentences() {
        for line in registered().text().split(separator: "\n") where line.hasPrefix("# TYPE ") {
            let name = line.split(separator: " ")[2]
            #expect(MetricCatalogue.help[String(name)] != nil, "\(name)")
        }
    }
}
