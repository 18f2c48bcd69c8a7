import Broker
import HTTPTypes
import NIOCore

/// The page of a hand-over, which is the same for all tickets and repeats no part of the address.
enum HandoverPage {
    static let script = "document.forms[0].submit()"
    static let style =
        "body{font:17px/1.5 system-ui,sans-serif;margin:20vh 1em 0;text-align:center}button{font:inherit;padding:.5em 1.5em}"
    /// The digests of the page's script and style (CSP Level 3 section 2.3.1); a test computes them again.
    static let scriptDigest = "ePniVEkSivX/c7XWBGafqh8tSpiRrKiqYeqbG7N1TOE="
    static let styleDigest = "Qe/cRgjGL49Q6LxDbA85BYNN1n6VZBo8db3Ofj6ke0E="

    static let html = HTTPField(name: .contentType, value: "text/html; charset=utf-8")

    /// The header fields of the page, and of the answer to its form.
    ///
    /// With `strict-origin`, the `Referer` never contains the ticket, and the form's `Origin` is the broker's instead of
    /// `null`.
    static func fields(_ requestID: String) -> [HTTPField] {
        Answers.fields(requestID).map { field in
            switch field.name {
            case .contentSecurityPolicy: policy
            case .referrerPolicy: referrer
            default: field
            }
        }
    }

    private static let referrer = HTTPField(name: .referrerPolicy, value: "strict-origin")
    private static let policy = HTTPField(
        name: .contentSecurityPolicy,
        value: "default-src 'none'; script-src 'sha256-\(scriptDigest)'; style-src 'sha256-\(styleDigest)'; "
            + "form-action 'self'; base-uri 'none'; frame-ancestors 'none'")

    static let page = ByteBuffer(
        string: document(
            "Opening",
            """
            <form method="post"><button>Continue</button></form>
            <script>\(script)</script>
            """))

    /// Returns a refusal as a page, because a web view would show an empty page for a problem document.
    static func refusal(_ problem: BrokerProblem) -> [UInt8] {
        Array(
            document(
                "Not opened",
                """
                <p>This page cannot be opened now. Go back to the app and try again.</p>
                <p><small>\(problem.code.status) \(problem.code.rawValue)</small></p>
                """
            ).utf8)
    }

    private static func document(_ title: String, _ body: String) -> String {
        """
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>\(title)</title>
        <style>\(style)</style>
        </head>
        <body>
        \(body)
        </body>
        </html>

        """
    }
}
