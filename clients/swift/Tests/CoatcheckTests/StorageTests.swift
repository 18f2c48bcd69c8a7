import Foundation
import Testing

@testable import Coatcheck

@Suite("The storage of a device", .timeLimit(.minutes(1)))
struct StorageTests {
    private func file() -> URL {
        FileManager.default.temporaryDirectory.appendingPathComponent("coatcheck-\(UUID().uuidString)")
    }

    @Test("The storage file is temporarily unreadable → the client's standing is unknown, not signed out")
    func unreadable() async throws {
        let folder = file()
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        #expect(throws: (any Error).self) { try FileStorage(folder).read() }
        let phone = Coatcheck(broker: try Stack.url("http://127.0.0.1:1"), storage: FileStorage(folder))
        #expect(await phone.standing() == .unknown(last: nil))
        #expect(try FileStorage(file()).read() == nil)
    }

    @Test("The stored last session has an unknown form → it is ignored, and the session's credentials are kept")
    func otherMembers() throws {
        let file = file()
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(#"{"session":"s","transport":"bearer","lastSession":{"handle":"ses_1","new":true},"more":1}"#.utf8)
            .write(to: file)
        let kept = try #require(try FileStorage(file).read())
        #expect(kept.session == "s" && kept.transport == .bearer && kept.lastSession == nil)
    }

    @Test("An app's own login is encoded and decoded → the same login, with its secret")
    func appLogin() throws {
        let login = AppLogin(provider: "oidc", client: "ios", state: "s", codeVerifier: "v", nonce: "n")
        #expect(try JSONDecoder().decode(AppLogin.self, from: JSONEncoder().encode(login)) == login)
        let native = NativeLogin(provider: "google", client: "web", nonce: "n")
        #expect(try JSONDecoder().decode(NativeLogin.self, from: JSONEncoder().encode(native)) == native)
        #expect(native.loginToken.count == 43 && native.loginToken != login.loginToken)
    }

    @Test("A problem of the broker, or an error of the client → each has a description for the user")
    func words() throws {
        let problem = try Coding.decoder().decode(
            Problem.self,
            from: Data(
                #"{"title":"Rate limited","status":429,"code":"rate_limited","detail":"d","request_id":"req_1"}"#.utf8))
        #expect(problem.localizedDescription == "Rate limited (rate_limited, req_1)")
        #expect(CoatcheckError.unreachable.localizedDescription == "The sign-in service cannot be reached.")
    }

    @Test(
        "Twelve sign-outs without a network → the client remembers only the last eight sessions, which it still has to end"
    )
    func endings() {
        var credentials = Credentials()
        for number in 0..<12 {
            credentials.session = "\(number)"
            credentials.signOut()
        }
        #expect(credentials.session == nil && credentials.endings.map(\.session) == (4..<12).map { "\($0)" })
    }
}
