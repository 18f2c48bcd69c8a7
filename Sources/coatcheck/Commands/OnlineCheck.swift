import Broker
import BrokerProviders
import BrokerStore
import BrokerVault
import Foundation

/// Tests a configuration's keys and store, then all its providers at the same time.
enum OnlineCheck {
    /// One line of the result.
    struct Finding: Sendable, CustomStringConvertible {
        let place: String
        let isGood: Bool
        let text: String
        var isDoubtful = false

        var description: String { "\(isDoubtful ? "warn  " : isGood ? "ok    " : "FAULT ") \(place): \(text)" }
    }

    static func run(_ configuration: Configuration) async -> [Finding] {
        var findings = [keys(configuration), await store(configuration.store)]
        if let finding = await storeClock(configuration.store) { findings.append(finding) }
        if let finding = await ring(configuration) { findings.append(finding) }
        let transport = ProviderHTTP(settings: configuration.outbound)
        do {
            let clients = try ProviderCatalogue.make(
                settings: configuration.providers.map(\.settings), http: transport, clock: SystemClock.clock,
                random: { try SystemRandom.bytes($0) })
            let signer = try? Composition.makeVault(configuration.keys)
            findings += await withTaskGroup(of: (Int, [Finding]).self) { group in
                for (index, client) in clients.enumerated() {
                    group.addTask { (index, await probe(client, signer)) }
                }
                return await group.reduce(into: []) { $0.append($1) }.sorted { $0.0 < $1.0 }.flatMap(\.1)
            }
        } catch {
            findings.append(Finding(place: "providers", isGood: false, text: "\(error)"))
        }
        await transport.shutdown()
        return findings + configuration.providers.compactMap(site)
    }

    /// Reports that all redirect URIs are under Clover's Site URL.
    ///
    /// The finding is always good, because reading the configuration refuses all other redirect URIs.
    private static func site(_ provider: ProviderSection) -> Finding? {
        guard let site = provider.cloverSite else { return nil }
        let count = provider.clients.reduce(0) { $0 + $1.settings.profile.redirectURIs.count }
        return Finding(
            place: "providers.\(provider.settings.name) redirect_uris", isGood: true,
            text: "all \(count) lie under `site_url`, \(site.url.text)")
    }

    private static func probe(_ client: any ProviderClient, _ signer: (any ProofSigner)?) async -> [Finding] {
        guard let inspected = client as? any ProviderInspection else { return [] }
        var results = await inspected.probe()
        // Skip the further requests if the first request failed, because they would fail for the same reason.
        if let signer, let pushing = client as? any RequestPushing, results.first?.isGood == true {
            results += await pushing.pushUnopened(signer)
        }
        if let exchanging = client as? any ExchangeProbing, results.first?.isGood == true {
            results += await exchanging.probeExchange()
        }
        if let probing = client as? any OldSystemProbing { results += await probing.probeOldSystems() }
        return results.map { result in
            Finding(
                place: "providers.\(client.profile.name) \(result.subject)", isGood: result.isGood, text: result.text,
                isDoubtful: result.isDoubtful)
        }
    }

    private static func keys(_ configuration: Configuration) -> Finding {
        do throws(StartFailure) {
            let count = try KeyRingFile.load(configuration.keys).list.count
            return Finding(place: "keys", isGood: true, text: "\(count) in the ring")
        } catch {
            return Finding(place: "keys", isGood: false, text: "\(error)")
        }
    }

    /// Tests whether the key ring opens the store's values; returns nil if ring or store is unavailable, which another finding
    /// reports.
    private static func ring(_ configuration: Configuration) async -> Finding? {
        if case .sqlite(let path, _) = configuration.store, !FileManager.default.fileExists(atPath: path) { return nil }
        guard let vault = try? Composition.makeVault(configuration.keys),
            let store = try? await configuration.store.openForCopy()
        else { return nil }
        let check = try? await RingCheck.run(store, vault)
        await store.close()
        return check.map { Finding(place: "keys and store", isGood: $0.isGood, text: "\($0)") }
    }

    /// Opens the store without migrating it.
    ///
    /// A store that is locked by a running broker counts as good.
    private static func store(_ settings: StoreSettings) async -> Finding {
        switch settings {
        case .sqlite(let path, _): await sqlite(path)
        case .postgresql(let place): await postgresql(place)
        }
    }

    /// The fault of a connection to a standby, for example through a pooler that balances reads.
    private static let standby =
        "is a standby, whose reads show ended sessions as live; "
        + "leave out `target_session_attrs`, and set `load_balance_mode = off` in Pgpool-II"

    private static func postgresql(_ place: PostgreSQLPlace) async -> Finding {
        do throws(StoreOpenFailure) {
            var isStandby = try await PostgreSQLStore.isStandby(place.connection)
            if let listening = place.listening, !isStandby {
                isStandby = try await PostgreSQLStore.isStandby(listening)
            }
            guard !isStandby else { return Finding(place: "store", isGood: false, text: standby) }
            let version = try await PostgreSQLStore.check(place.connection)
            if let listening = place.listening { _ = try await PostgreSQLStore.check(listening) }
            if let lacking = try await PostgreSQLStore.lackingRights(place.connection) {
                return Finding(place: "store", isGood: false, text: "\(lacking); GRANT them to it")
            }
            let waits = try await PostgreSQLStore.waitsForStandby(place.connection)
            let failover =
                waits
                ? "commits wait for a standby"
                : "no commit waits for a standby: failing over to one loses what was answered last"
            return Finding(
                place: "store", isGood: true, text: "answers and is up to date (version \(version)); \(failover)")
        } catch {
            if case .needsMigration = error {
                return Finding(place: "store", isGood: true, text: "will be migrated at the next start")
            }
            return Finding(place: "store", isGood: false, text: "\(error)")
        }
    }

    /// Compares this machine's clock with the store's clock; returns nil in two cases: the store has no clock of its own; or the
    /// store does not answer, which another finding reports.
    private static func storeClock(_ settings: StoreSettings) async -> Finding? {
        guard case .postgresql(let place) = settings, let time = try? await PostgreSQLStore.time(place.connection)
        else { return nil }
        let ahead = SystemClock.wallTime().since(time)
        let seconds = abs(ahead.components.seconds)
        let limit = ClockCheck.tolerance.components.seconds
        let text =
            seconds <= limit
            ? "agrees within \(limit) s"
            : "is \(seconds) s \(ahead > .zero ? "behind" : "ahead of") this machine's; set the wrong one right"
        return Finding(place: "store clock", isGood: seconds <= limit, text: text)
    }

    private static func sqlite(_ path: String) async -> Finding {
        guard FileManager.default.fileExists(atPath: path) else {
            return Finding(place: "store", isGood: true, text: "will be made at the first start")
        }
        do throws(StoreOpenFailure) {
            let store = try await SQLiteStore.open(path: path, migrating: false, reserve: 0)
            await store.close()
            return Finding(place: "store", isGood: true, text: "opens and is up to date")
        } catch {
            switch error {
            case .locked: return Finding(place: "store", isGood: true, text: "is held by a running broker")
            case .needsMigration:
                return Finding(place: "store", isGood: true, text: "will be migrated at the next start")
            default: return Finding(place: "store", isGood: false, text: "\(error)")
            }
        }
    }
}
