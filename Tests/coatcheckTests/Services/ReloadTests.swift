import Broker
import BrokerHTTP
import BrokerTestSupport
import BrokerVault
import Foundation
import Synchronization
import Testing

@testable import BrokerProviders
@testable import coatcheck

@Suite("The configuration of a running broker", .timeLimit(.minutes(2)))
struct ReloadTests {
    /// A complete broker without listeners.
    ///
    /// The test sets the text of the configuration file, and reads the broker's log.
    private final class Wired: Sendable {
        let composition: Composition
        private let work: ConfigurationReload
        private let lines: WrittenLines
        private let file: Held

        /// Makes the broker.
        ///
        /// `isOpen` returns whether others may read files; `reads` is called before each reading of the configuration.
        init(
            _ text: String, secret: @escaping @Sendable () -> String = { "zQ8vN2kLr5TwX7yB3mHd" },
            isOpen: @escaping @Sendable () -> Bool = { false }, reads: @escaping @Sendable () -> Void = {},
            clock: BrokerClock = SystemClock.clock
        ) throws {
            let ring = try KeyRing.generate(now: SystemClock.wallTime(), random: SystemRandom.bytes)
            let ringText = String(decoding: ring.json().bytes(), as: UTF8.self)
            let sources = ConfigSources(
                environment: { name in name == "RING" ? ringText : nil },
                readFile: { path throws(FileFault) in
                    guard path == "secret" else { throw .missing }
                    return Array(secret().utf8)
                }, isOpenToOthers: { _ in isOpen() }, directory: "")
            let lines = WrittenLines()
            let held = Held(text)
            self.lines = lines
            composition = try Composition.make(
                Configuration.load(text: text, sources: sources),
                log: ProcessLog(level: .info, now: SystemClock.wallTime, emit: { lines.add($0) }),
                store: InMemoryStore(), clock: clock)
            work = ConfigurationReload(composition.parts, composition.running) {
                () throws(ConfigurationFailure) in
                let text = held.value
                reads()
                return try Configuration.load(text: text, sources: sources)
            }
            file = held
        }

        final class Held: Sendable {
            private let text: Mutex<String>
            init(_ text: String) { self.text = Mutex(text) }
            var value: String {
                get { text.withLock { $0 } }
                set { text.withLock { $0 = newValue } }
            }
        }

        var running: RunningConfiguration { composition.running.current }
        /// The log so far.
        var log: String { lines.take() }
        func stop() { work.stop() }

        /// Replaces the file's text, reloads, and returns the new log lines.
        func reload(_ text: String) async -> String {
            file.value = text
            await work.run()
            return lines.take()
        }

        func limiter(_ provider: String) -> CallLimiter? {
            (running.context.providers[ProviderName(unchecked: provider)] as? OAuth2Client)?.engine.caller.limiter
        }
    }

    private static let text = """
        server: {listen: "127.0.0.1:8080", public_url: "https://auth.example.com", trusted_proxies: [127.0.0.1]}
        management: {listen: "127.0.0.1:9090"}
        store: {url: "sqlite:coatcheck.db"}
        keys: {env: RING}
        session: {idle: 30d}
        limits: {body: 64KiB}
        providers:
          one:
            kind: oauth2
            endpoints: {authorization: "https://one.example.com/a", token: "https://one.example.com/t", userinfo: "https://one.example.com/u"}
            clients:
              ios: {client_id: one-app, auth: none, redirect_uris: ["com.example.one:/cb"]}
              web: {client_id: one-web, client_secret: {file: secret}, redirect_uris: ["com.example.web:/cb"]}
          two:
            kind: oauth2
            endpoints: {authorization: "https://two.example.com/a", token: "https://two.example.com/t", userinfo: "https://two.example.com/u"}
            clients:
              ios: {client_id: two-app, auth: none, redirect_uris: ["com.example.two:/cb"]}
        upstreams:
          api: {base_url: "https://api.example.com", provider: one, allow: ["GET /a"]}
        """

    @Test(
        "A reload reads a faulty file → the configuration stays, and the log names the fault",
        arguments: [
            ("limits: {body: 64KiB}", "limits: {body: 64KiB", "is not YAML"),
            ("kind: oauth2", "kind: oauth", "has to be"),
            ("limits: {body: 64KiB}", "limits: {body: 64KiB, boddy: 1}", "did you mean `body`"),
            ("provider: one", "provider: onee", "did you mean `one`"),
            ("{file: secret}", "{file: gone}", "gone does not exist"),
        ])
    func faulty(_ part: String, _ other: String, _ words: String) async throws {
        let wired = try Wired(Self.text)
        let before = wired.running
        let log = await wired.reload(Self.text.replacingFirst(part, with: other))
        #expect(log.contains("configuration not reloaded") && log.contains(words), "\(log)")
        #expect(wired.running === before)
        await wired.composition.close()
    }

    @Test(
        "A reload finds one change that needs a restart → none of its changes is applied, and the log names the setting",
        arguments: [
            ("listen: \"127.0.0.1:8080\"", "listen: \"127.0.0.1:8081\"", "server.listen"),
            (
                "trusted_proxies: [127.0.0.1]", "trusted_proxies: [127.0.0.1], backend_listen: \"127.0.0.1:8082\"",
                "server.backend_listen"
            ),
            ("https://auth.example.com", "https://other.example.com", "server.public_url"),
            ("listen: \"127.0.0.1:9090\"", "listen: \"127.0.0.1:9091\"", "management.listen"),
            ("sqlite:coatcheck.db", "sqlite:other.db", "store.url"),
            ("session: {idle: 30d}", "session: {idle: 20d, cookie: {name: __Host-other}}", "session.cookie.name"),
            ("session: {idle: 30d}", "session: {idle: 20d, cookie: {same_site: lax}}", "session.cookie.same_site"),
            ("session: {idle: 30d}", "session: {cache: off}", "session.cache"),
            (
                "sqlite:coatcheck.db\"", "sqlite:coatcheck.db\", endings_file: /volume/endings",
                "store.endings_file"
            ),
            (
                "limits: {body: 64KiB}", "limits: {body: 64KiB}\ntracing: {otlp: \"http://127.0.0.1:4318\"}",
                "tracing.otlp"
            ),
        ])
    func fixed(_ part: String, _ other: String, _ path: String) async throws {
        let wired = try Wired(Self.text)
        let before = wired.running
        // The file also has another change, which a reload could apply. It is not applied, because the first change needs a
        // restart.
        let changed = Self.text.replacingFirst("allow: [\"GET /a\"]", with: "allow: [\"GET /b\"]")
        let log = await wired.reload(changed.replacingFirst(part, with: other))
        #expect(log.contains("\(path): has changed, which takes a restart"), "\(log)")
        #expect(wired.running === before)
        #expect(FixedSettings.needsRestart(path))
        await wired.composition.close()
    }

    @Test("Other users may read a secret's file → each reload logs a warning, even without a changed setting")
    func warnings() async throws {
        let isOpen = Mutex(false)
        let wired = try Wired(Self.text, isOpen: { isOpen.withLock { $0 } })
        let before = await wired.reload(Self.text)
        #expect(before.contains("configuration unchanged") && !before.contains(#""level":"warning""#), "\(before)")
        isOpen.withLock { $0 = true }
        let log = await wired.reload(Self.text)
        #expect(log.contains("configuration unchanged"))
        #expect(log.contains(#""level":"warning""#) && log.contains("client_secret"), "\(log)")
        await wired.composition.close()
    }

    @Test(
        "A client has a setting that belongs to the provider → each reload logs one warning, and the client's value is used"
    )
    func serverKey() async throws {
        let wired = try Wired(Self.text)
        let text = Self.text.replacingFirst("client_id: two-app,", with: "client_id: two-app, scope_separator: \",\",")
        for result in ["configuration reloaded", "configuration unchanged"] {
            let log = await wired.reload(text)
            #expect(log.contains(result), "\(log)")
            let warnings = log.split(separator: "\n").filter { $0.contains(#""level":"warning""#) }
            #expect(warnings.count == 1, "\(log)")
            #expect(warnings.first?.contains("providers.two.clients.ios.scope_separator: belongs to") == true, "\(log)")
        }
        let client = wired.running.configuration.providers.last?.clients.first
        #expect(client?.settings.wire.scopeSeparator == ",")
        await wired.composition.close()
    }

    @Test(
        "A reload hangs at its file → a log line, and later reloads work; the reading ends at last → its result is dropped"
    )
    func hanging() async throws {
        let gate = DispatchSemaphore(value: 0)
        let hangs = Mutex(false)
        let clock = BrokerClock(
            now: SystemClock.wallTime, monotonic: { .seconds(1000) },
            sleep: { _ in
                // This wait is the time limit of a reading. While a reading hangs, the wait ends at once, so the limit is
                // reached. Otherwise the wait never ends.
                while !hangs.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(5)) }
            })
        let wired = try Wired(
            Self.text,
            reads: {
                if hangs.withLock({ $0 }) { gate.wait() }
            }, clock: clock)
        hangs.withLock { $0 = true }
        let hung = await wired.reload(Self.text.replacingFirst("GET /a", with: "GET /hung"))
        #expect(hung.contains("reload still reading") && !hung.contains("configuration reloaded"), "\(hung)")
        hangs.withLock { $0 = false }
        let good = await wired.reload(Self.text.replacingFirst("GET /a", with: "GET /good"))
        #expect(good.contains("configuration reloaded"), "\(good)")
        let running = wired.running
        gate.signal()
        // This reload begins after the hanging reading has returned. It shows that the content from that reading was not used.
        _ = await wired.reload(Self.text.replacingFirst("GET /a", with: "GET /good"))
        #expect(wired.running === running)
        // After the stop, a reload changes nothing.
        wired.stop()
        let none = await wired.reload(Self.text)
        #expect(!none.contains("configuration reloaded") && wired.running === running, "\(none)")
        await wired.composition.close()
    }

    @Test(
        "A reload changes one of two providers → this provider is made again; the other keeps its connections, breaker and caches"
    )
    func kept() async throws {
        let wired = try Wired(Self.text)
        let before = wired.running
        let (one, two) = (wired.limiter("one"), wired.limiter("two"))
        #expect(one != nil && two != nil)
        let log = await wired.reload(Self.text.replacingFirst("client_id: two-app", with: "client_id: two-other"))
        #expect(log.contains("configuration reloaded") && log.contains("providers.two.clients.ios.client_id"), "\(log)")
        #expect(wired.running !== before && wired.running.kept == 1)
        #expect(wired.limiter("one") === one && wired.limiter("two") !== two)
        #expect(wired.running.transport === before.transport)
        // Each client has a copy of the configured lifetimes of sessions. So after their change, all providers are made again.
        _ = await wired.reload(Self.text.replacingFirst("idle: 30d", with: "idle: 20d"))
        #expect(wired.running.kept == 0 && wired.running.transport === before.transport)
        _ = await wired.reload(Self.text + "\noutbound: {connect_timeout: 3s}")
        #expect(wired.running.kept == 0 && wired.running.transport !== before.transport)
        await wired.composition.close()
        await before.transport.shutdown()
    }

    @Test("A reload changes an upstream's `token` → the sign-ins of its provider request the new resource and scope")
    func retargeted() async throws {
        let wired = try Wired(Self.text)
        let two = wired.limiter("two")
        func asked() -> Set<String> {
            let one = wired.running.context.providers[ProviderName(unchecked: "one")] as? OAuth2Client
            return Set((one?.engine.settings.clients ?? []).flatMap { $0.targetResources + $0.targetScope })
        }
        for (token, expected) in [
            (#", token: {resource: "urn:a", scope: read}"#, ["urn:a", "read"]),
            (#", token: {resource: "urn:b", scope: read}"#, ["urn:b", "read"]), ("", []),
        ] as [(String, Set<String>)] {
            let part = #"allow: ["GET /a"]"#
            let log = await wired.reload(Self.text.replacingFirst(part, with: part + token))
            #expect(log.contains("configuration reloaded"), "\(log)")
            #expect(asked() == expected && wired.limiter("two") === two)
        }
        await wired.composition.close()
    }

    @Test("A reload finds a changed secret's file → only the provider that uses the secret is made again")
    func secret() async throws {
        let secret = Wired.Held("zQ8vN2kLr5TwX7yB3mHd")
        let wired = try Wired(Self.text, secret: { secret.value })
        let (one, two) = (wired.limiter("one"), wired.limiter("two"))
        #expect(await wired.reload(Self.text).contains("configuration unchanged"))
        #expect(wired.limiter("one") === one)
        secret.value = "rT5nLk2YvB7xHs0dPq4m"
        let log = await wired.reload(Self.text)
        #expect(log.contains("providers.one.clients.web.client_secret"), "\(log)")
        #expect(!log.contains("rT5nLk2YvB7xHs0dPq4m") && !log.contains("zQ8vN2kLr5TwX7yB3mHd"))
        #expect(wired.limiter("one") !== one && wired.limiter("two") === two)
        await wired.composition.close()
    }

    @Test("A reload changes the log level, backends and limits → the new values apply at once")
    func rest() async throws {
        let wired = try Wired(Self.text)
        let digest = "3b1f0d7c5f0a3a9d4b8f6b2f6a8e1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d"
        let text =
            Self.text.replacingFirst("body: 64KiB", with: "body: 8KiB")
            + "\nlog: {level: error}\nbackends: {a: {sha256: \(digest), may: [introspect]}}"
        #expect(await wired.reload(text).isEmpty)
        #expect(wired.running.http.limits.body == 8192 && wired.running.http.backends.count == 1)
        #expect(await wired.reload(Self.text).contains("configuration reloaded"))
        #expect(wired.running.http.backends.isEmpty)
        await wired.composition.close()
    }

    @Test(
        "A reload changes the share of recorded traces → applied at once; it changes the traces' destination → refused")
    func tracing() async throws {
        func text(_ port: Int, _ sample: String) -> String {
            Self.text + "\ntracing: {otlp: \"http://127.0.0.1:\(port)\", sample: \(sample)}"
        }
        let wired = try Wired(text(4318, "0"))
        func isSampled() -> Bool? {
            wired.composition.parts.tracing?.starter.begin("x", .server, nil).traceparent.hasSuffix("-01")
        }
        #expect(isSampled() == false)
        let refused = await wired.reload(text(4319, "1"))
        #expect(refused.contains("tracing.otlp: has changed") && isSampled() == false, "\(refused)")
        let log = await wired.reload(text(4318, "1.0"))
        #expect(log.contains("configuration reloaded") && isSampled() == true, "\(log)")
        await wired.composition.close()
    }

    private final class Kept {
        weak var value: RunningConfiguration?
        init(_ value: RunningConfiguration) { self.value = value }
    }

    @Test("A reload replaces the configuration, and no request uses the old one any more → its memory is released")
    func released() async throws {
        let wired = try Wired(Self.text)
        let before = Kept(wired.running)
        #expect(before.value != nil)
        _ = await wired.reload(Self.text.replacingFirst("client_id: two-app", with: "client_id: two-other"))
        #expect(before.value == nil)
        await wired.composition.close()
    }

    @Test("A broker gets 100 signals during a reload → at least one more reload afterwards, and never two at once")
    func signals() async throws {
        let runs = Mutex((count: 0, under: 0, most: 0))
        let (first, firstBegan) = AsyncStream.makeStream(of: Void.self)
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let (signals, signal) = AsyncStream.makeStream(of: Int.self)
        let work = Task {
            await ReloadOnHangup.run(signals) {
                let number = runs.withLock { runs in
                    runs.count += 1
                    runs.under += 1
                    runs.most = max(runs.most, runs.under)
                    return runs.count
                }
                if number == 1 {
                    firstBegan.finish()
                    for await _ in gate {}
                }
                runs.withLock { $0.under -= 1 }
            }
        }
        signal.yield(0)
        for await _ in first {}
        for number in 1...100 { signal.yield(number) }
        signal.finish()
        open.finish()
        await work.value
        let (count, _, most) = runs.withLock { $0 }
        #expect(most == 1)
        #expect((2...101).contains(count))
    }

    @Test("Two configurations are compared by salted digests → the paths of all values that differ")
    func compared() throws {
        let one = try ConfigurationFixture.load(ConfigurationFixture.minimal)
        let other = try ConfigurationFixture.load(
            ConfigurationFixture.minimal.replacingFirst(
                "client_id: mobile-app", with: "client_id: other-app\n        scope: openid"))
        let vault = try OpenSSLVault(ring: .generate(now: SystemClock.wallTime(), random: SystemRandom.bytes))
        let salt = [UInt8](repeating: 7, count: 32)
        let items = FixedSettings.compare(
            one.values.digests(salt) { vault.digest($0) }, with: other.values.digests(salt) { vault.digest($0) })
        #expect(
            items.filter(\.isChanged).map(\.path) == [
                "providers.example.clients.ios.client_id", "providers.example.clients.ios.scope",
            ])
        #expect(items.contains { $0.path == "server.public_url" && !$0.isChanged && $0.needsRestart })
        // With another salt, each value has another digest.
        let digests = one.values.digests(salt) { vault.digest($0) }
        let salted = one.values.digests([1]) { vault.digest($0) }
        #expect(digests.keys == salted.keys && digests.allSatisfy { salted[$0.key] != $0.value })
    }
}
