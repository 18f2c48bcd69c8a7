import ArgumentParser
import Broker
import BrokerVault
import Foundation

/// Prints the SHA-256 of a credential, for `sha256` in the configuration.
struct HashSecret: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print the SHA-256 of the credential on standard input, for `sha256` keys.",
        discussion: """
            The credential is one line of 32 to 512 printable ASCII characters; a good one is 32 random bytes.
            With --generate a new one is made and printed, too.
            """)

    @Flag(help: "Make a new credential; it is printed on the first line, its SHA-256 on the second.")
    var generate = false

    func run() throws {
        let credential: String
        if generate {
            credential = Base64URL.encode(try SystemRandom.bytes(32))
            print(credential)
        } else {
            credential = try Self.readLine()
        }
        // Any key ring will do, because the digest is independent of the ring.
        let vault = try OpenSSLVault(ring: .generate(now: SystemClock.wallTime(), random: SystemRandom.bytes))
        print(Hexadecimal.encode(vault.digest(Array(credential.utf8)).bytes))
    }

    private static func readLine() throws -> String {
        let data = try FileHandle.standardInput.read(upToCount: 1024) ?? Data()
        var text = String(decoding: data, as: UTF8.self)
        if text.hasSuffix("\n") { text.removeLast() }
        let isPlain = text.unicodeScalars.allSatisfy { (0x21...0x7E).contains($0.value) }
        guard (32...512).contains(text.utf8.count), isPlain, WeakSecret.fault(of: text) == nil else {
            StandardError.write("a credential is one line of 32 to 512 printable ASCII characters, and no placeholder")
            throw ExitCode(1)
        }
        return text
    }
}
