import Broker
import BrokerProviders

/// Reads how a client's signed proof looks (`assertion`).
enum AssertionReader {
    static func read(_ section: ConfigSection, into settings: inout AssertionSettings) {
        if let audience = section.text("audience", limit: 2048) {
            switch audience {
            case "issuer": settings.audience = .issuer
            case "token_endpoint": settings.audience = .tokenEndpoint
            case "endpoint": settings.audience = .endpoint
            default:
                if let url = WebURL(audience), url.isSecure || url.isLoopback {
                    settings.audience = .url(audience)
                } else {
                    section.report("audience", "has to be `issuer`, `token_endpoint`, `endpoint` or an https URL")
                }
            }
        }
        if let type = section.text("typ", limit: 64) {
            if type.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }) {
                settings.type = type
            } else {
                section.report("typ", "has to be a media type such as `JWT`")
            }
        }
        settings.keyHeader = section.choice("key_header", as: AssertionSettings.KeyHeader.self) ?? settings.keyHeader
        let certificate = section.section("certificate")
        if section.has("certificate") { certificate.require("file") }
        guard let file = certificate.readableFile("file") else { return }
        guard let thumbprint = CertificateThumbprint.first(inPEM: String(decoding: file.bytes, as: UTF8.self)) else {
            certificate.report("file", "names a file without a certificate in PEM")
            return
        }
        settings.thumbprint = thumbprint
    }
}
