import Testing

@testable import BrokerStore

@Suite("PostgreSQL: the store's URL")
struct ConnectionSettingsTests {
    private func value(_ keyword: String, of settings: ConnectionSettings) -> String? {
        settings.parameters.last { $0.keyword == keyword }?.value
    }

    @Test("A store URL lacks options → the broker's defaults are added; options in the URL → unchanged")
    func defaults() throws {
        let bare = try ConnectionSettings(url: "postgresql://u@localhost/db")
        for (keyword, expected) in [
            ("connect_timeout", "3"), ("tcp_user_timeout", "5000"), ("keepalives_idle", "10"),
            ("keepalives_interval", "5"), ("keepalives_count", "2"), ("gssencmode", "disable"),
            ("target_session_attrs", "read-write"), ("host", "localhost"), ("dbname", "db"), ("user", "u"),
        ] {
            #expect(value(keyword, of: bare) == expected, "\(keyword)")
        }
        #expect(value("sslmode", of: bare) == nil)
        let given = try ConnectionSettings(
            url: "postgresql://u@db1,db2:5433/db?connect_timeout=9&target_session_attrs=any&sslmode=require")
        #expect(value("connect_timeout", of: given) == "9")
        #expect(value("target_session_attrs", of: given) == "any")
        #expect(value("sslmode", of: given) == "require")
        #expect(value("host", of: given) == "db1,db2")
        #expect(!given.isLocal)
    }

    @Test(
        "A store URL names another machine → its certificate is verified in full, unless the URL or environment sets sslmode",
        arguments: [
            ("postgresql://db.example/x", false), ("postgresql://localhost,db.example/x", false),
            ("postgresql://10.0.0.1/x", false), ("postgresql://127.0.0.1.example.com/x", false),
            ("postgresql://127.example/x", false), ("postgresql:///x?host=/run/postgresql", true),
            ("postgresql:///x", true), ("postgresql://127.0.0.2/x", true), ("postgresql://[::1]/x", true),
            ("postgresql://localhost/x?hostaddr=10.1.2.3", false),
        ])
    func verification(_ url: String, _ isLocal: Bool) throws {
        let settings = try ConnectionSettings(url: url)
        #expect(settings.isLocal == isLocal)
        #expect(value("sslmode", of: settings) == (isLocal ? nil : "verify-full"))
        let told = try ConnectionSettings(url: url, variable: { $0 == "PGSSLMODE" ? "require" : nil })
        #expect(value("sslmode", of: told) == nil)
        let system = try ConnectionSettings(url: url, exists: { $0.hasPrefix("/etc/ssl/") })
        #expect((value("sslrootcert", of: system) != nil) == !isLocal)
    }

    @Test(
        "libpq resolves a store URL to another machine → TLS is verified in full; to this machine → the options stay",
        arguments: [
            ("postgresql://localhost/x", ["host": "localhost", "hostaddr": "10.1.2.3"], false),
            ("postgresql:///x", ["host": "db.example"], false), ("postgresql:///x", ["hostaddr": "192.0.2.7"], false),
            ("postgresql:///x?service=far", ["service": "far", "host": "db.example"], false),
            ("postgresql://localhost,127.0.0.1/x", ["host": "localhost,127.0.0.1", "hostaddr": ",10.1.2.3"], false),
            ("postgresql://db.example/x", ["host": "db.example", "hostaddr": "127.0.0.1"], true),
            (
                "postgresql://localhost,db.example/x", ["host": "localhost,db.example", "hostaddr": "127.0.0.1,::1"],
                true
            ),
            ("postgresql:///x", ["host": "/run/postgresql"], true),
        ])
    func resolved(_ url: String, _ options: [String: String], _ isLocal: Bool) throws {
        let prefer = options.merging(["sslmode": "prefer"]) { $1 }
        let settings = try ConnectionSettings(url: url, resolve: { $0.merging(prefer) { $1 } })
        #expect(settings.isLocal == isLocal)
        #expect(value("sslmode", of: settings) == (isLocal ? nil : "verify-full"))
        // libpq may find an `sslmode` other than `prefer`, for example in a service file. In this case, the store adds no
        // `sslmode`.
        let told = options.merging(["sslmode": "require", "sslrootcert": "/ca.crt"]) { $1 }
        let said = try ConnectionSettings(url: url, exists: { _ in true }, resolve: { $0.merging(told) { $1 } })
        #expect(value("sslmode", of: said) == nil && value("sslrootcert", of: said) == nil)
    }

    @Test("The broker needs the options of a store URL → libpq itself reads them, without a connection")
    func options() {
        let found = ResolvedOptions.find(["host": "192.0.2.1", "dbname": "x", "target_session_attrs": "any"])
        #expect(found["host"] == "192.0.2.1" && found["dbname"] == "x" && found["port"] == "5432")
        #expect(found["sslmode"] == "prefer" && found["target_session_attrs"] == "any")
        // If libpq does not find a service, the given options stay.
        let missing = ResolvedOptions.find(["service": "nowhere", "host": "192.0.2.1"])
        #expect(missing["host"] == "192.0.2.1")
    }

    @Test("A malformed store URL → refused, and the message does not quote the URL")
    func refused() {
        for url in ["", "sqlite:x", "postgresql://u:hunter2@h/%zz", "postgresql://h/x?nonsense=hunter2", "host=h"] {
            do throws(StoreOpenFailure) {
                _ = try ConnectionSettings(url: url)
                Issue.record("\(url)")
            } catch {
                #expect(!error.description.contains("hunter2"))
            }
        }
    }
}
