import ArgumentParser
import Sandbox

/// Prints a request's proof, for trying bound sessions with curl.
struct Proof: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print a DPoP proof (RFC 9449) of one request, for the header field `DPoP`.",
        discussion: """
            Bound sessions belong to a key of a device; here the key is in a file, which is made at the first use. \
            A proof is good once. docs/apps/bound-sessions.md shows a whole sign-in.
            """)

    @Option(help: "The PEM file of the key (P-256); it is made if it is absent.", completion: .file()) var key: String
    // A nonce or a token can begin with `-`, which would read as the next option.
    @Option(parsing: .unconditional, help: "The nonce of the broker's last answer (its header field DPoP-Nonce).")
    var nonce: String?
    @Option(parsing: .unconditional, help: "The session token that the request carries.") var token: String?
    @Argument(help: "The request's method.") var method: String
    @Argument(help: "The request's URL.") var url: String

    func run() throws {
        do throws(DeviceProof.Fault) {
            LineOutput.write(
                try DeviceProof(keyFile: key).proof(
                    of: method, url, nonce: nonce.flatMap { $0.isEmpty ? nil : $0 },
                    token: token.flatMap { $0.isEmpty ? nil : $0 }))
        } catch {
            throw ValidationError("\(error)")
        }
    }
}
