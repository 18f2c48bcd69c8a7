import Foundation
import Testing

@testable import coatcheck

@Suite("Spellings of an SQLite database", .timeLimit(.minutes(1)))
struct SQLiteAddressTests {
    static let refused: [(url: String, says: String)] = [
        ("sqlite://data/x.db", "two slashes"), ("sqlite://localhost/data/x.db", "two slashes"),
        ("sqlite://./data/x.db", "two slashes"), ("sqlite://../x.db", "two slashes"), ("sqlite://x.db", "two slashes"),
        ("sqlite::memory:", "in memory"), ("sqlite://:memory:", "in memory"), ("sqlite:///:memory:", "in memory"),
        ("sqlite:file::memory:", "in memory"), ("sqlite:data/:MEMORY:", "in memory"),
        ("sqlite:file:data/x.db", "`file:` URL"), ("sqlite:file:///data/x.db", "`file:` URL"),
        ("sqlite:///./data/x.db", "three slashes"), ("sqlite:///../x.db", "three slashes"),
        ("sqlite:~/x.db", "`~`"), ("sqlite:///~/x.db", "`~`"), ("sqlite:/data/my%20file.db", "percent-escape"),
        ("sqlite:data%2Fx.db", "percent-escape"), ("sqlite:%7E/x.db", "percent-escape"), ("sqlite:///data/", "folder"),
    ]

    private static func problems(_ url: String) -> [ConfigProblem] {
        ConfigurationFixture.problems(
            ConfigurationFixture.minimal.replacingFirst("providers:\n", with: "store: {url: \"\(url)\"}\nproviders:\n")
        ).filter { $0.path == "store.url" }
    }

    @Test(
        "An SQLite URL that other programs read as another file → refused, and the message has a working spelling",
        arguments: refused
    )
    func misspelt(_ url: String, _ says: String) {
        let problems = Self.problems(url)
        #expect(problems.count == 1 && problems.first?.severity == .error, "\(problems)")
        #expect(problems.first?.line == 5 && problems.first?.message.contains(says) == true, "\(problems)")
        if !says.contains("percent") { #expect(problems.first?.message.contains("`sqlite:data/coatcheck.db`") == true) }
        #expect(throws: (any Error).self) { try StoreSettings(url: url) }
    }

    @Test(
        "An SQLite URL without a file name, with a query or fragment, or with another scheme → refused",
        arguments: [
            "sqlite:", "sqlite:/", "sqlite://", "sqlite:///", "sqlite:x.db?mode=memory", "sqlite:x.db#a",
            "sqlite3:x.db", "file:x.db",
        ])
    func none(_ url: String) {
        #expect(Self.problems(url).map(\.severity) == [.error])
    }

    @Test(
        "An SQLite URL that all programs read in the same way → accepted",
        arguments: [
            ("sqlite:data/x.db", "data/x.db"), ("sqlite:./data/x.db", "./data/x.db"), ("sqlite:../x.db", "../x.db"),
            ("sqlite:/data/x.db", "/data/x.db"), ("sqlite:///data/x.db", "/data/x.db"),
            ("sqlite:///tmp/x.db", "/tmp/x.db"),
            ("sqlite:////data/x.db", "/data/x.db"), ("sqlite:100%.db", "100%.db"), ("sqlite:memory", "memory"),
            ("sqlite:data/50%-off.db", "data/50%-off.db"), ("sqlite:files/x.db", "files/x.db"),
        ])
    func plain(_ url: String, _ path: String) throws {
        // The broker reads three slashes as the absolute path `/data/x.db`. SQLAlchemy reads the relative path `data/x.db`,
        // so an operator may mean that one. Therefore a missing folder `/data` has a warning.
        let warned = url == "sqlite:///data/x.db"
        #expect(Self.problems(url).map(\.severity) == (warned ? [.warning] : []), "\(Self.problems(url))")
        let text = ConfigurationFixture.minimal.replacingFirst(
            "providers:\n", with: "store: {url: \"\(url)\"}\nproviders:\n")
        guard case .sqlite(path, nil) = try ConfigurationFixture.load(text).store else {
            return #expect(Bool(false), "\(url)")
        }
    }

    @Test(
        "An SQLite URL is ambiguous, but a database exists at the place where version 0.3.0 made it → accepted with a warning"
    )
    func old() throws {
        let folder = NSTemporaryDirectory() + "coatcheck-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        for name in ["x.db", ":memory:", "my%20file.db"] {
            let url = "sqlite:/" + folder + "/" + name
            #expect(Self.problems(url).map(\.severity) == [.error], "\(url)")
            try Data().write(to: URL(fileURLWithPath: folder).appendingPathComponent(name))
            let problems = Self.problems(url)
            #expect(problems.map(\.severity) == [.warning], "\(url)")
            #expect(problems.first?.message.contains("opened until 0.3.0") == true)
        }
    }
}
