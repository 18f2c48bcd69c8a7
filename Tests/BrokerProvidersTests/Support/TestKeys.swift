import Broker
import Crypto
import Foundation
import JWTKit

/// Keys for tests, and functions that sign well-formed and malformed tokens with these keys.
enum TestKeys {
    static let p256 = P256.Signing.PrivateKey()
    static let ed25519 = Curve25519.Signing.PrivateKey()

    /// An RSA key of 2048 bits that exists for tests only.
    static let rsaPEM = """
        -----BEGIN PRIVATE KEY-----
        MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSiAgEAAoIBAQC9TfZnKX+Nr67F
        3apTy8ZlTcLrF7SkQ8PqmG3pvTO8BBHzP41FVYMK+yMHq3uBH5BUqkAfPU/fYY2q
        mVhwNf8Rzp2HjAjQ2JKkP+9766W6LNgvMygtv5ng9OemEj7kXvAhp3xEJ2kjuJIm
        KO/htFZB+Nrv5Tvnvaebk+N7KrH2Pi/lgkkmqIcNSoKZ9mh+uekCk3jtNn0GLNY+
        qCplTnF06LhiUoJxpC7afYXN0lpqNIlA8RmYRK98iuNn2/jcD6Zq+Ac7BLNWMZ/F
        L2lo6wuS26qjZRIlYyflLarFoWvHl1vdzGhVOc4tVYuKAXL7ukgh5KWDJsm8ZQbr
        m55CJj23AgMBAAECggEALsrgHtTnphaofVlS+l6S3kSP6zuTV802Vr0x4gZ2DMH2
        y+lIGrzN5P95w7IUF7E9JGhm7DHkFePPuD0qWqZGM9keIDyxiyoVaUsyf6+aagAe
        ueALzO8g8rWmsuqsqBd9hNwY/+G7/+vmGE+jJ+fDMJB6UbUYjypWjULLhozhq2t7
        0IbtZKLO/P/DE6aw5kfTtwRNpNyAfH2HxPXndxePtzpUPfJ1xy4yZghTZJnKywcP
        bF7hjVcPAETbq9w5ypTkiyoJKIz+EfF44vm4ZTzsIXfGbv9YjSWH7+w7K+3mFuHk
        +NoFGqNxOcJh+RABiT04ToXjhAkvqPQpO7qcwG5psQKBgQDlTDcskUxNN2ZwvQXc
        Cd4Q9ZR+wS9CLCbh9FxSQiaPUJ3cBpfsFTLHq1Y/R280xZ7YFDBzBhYv22j0h4Qe
        VVhpAzOQX805wgYD0UunNt2faJgsK0pz+zu6Ftzi/NXR9zEkEVtAKuMtz9eOJetl
        XjURa8uF7nuArHFMhdGlSFQNcQKBgQDTWXoskzU24CCT/m4F+Uix3YoYlQldnkeo
        qlH4F0mQAFcJlP7eTUXFFOzEJtb178cLpdiFsodOR45DaSqzwbia1uR/6v5abJ1o
        slZbEvB1MLh8IEJCPzPHEdS903IFf7WrbMlu02fUgP3lMImIH7V/uZx4EhH8WDrO
        jld/CiCJpwKBgGZLAw5B381O2seOvC92w3fDZzTJEEEwG0SQVCNqWXN0HoiK9Hmg
        11+WQ0rFnonnY763+wlFfN5qvr7gOgOiRWfLwtQ0uQR8V1yaoWp+oo48Bi8mPPfS
        68lP68jjzKv34BdcGt5cg67rWxmSNxqo1XnpIgmk47n6tCzUQju/MagxAoGAb2t+
        gz1gEnv58MtzSWbwMgSvJuJ7O4WUFZElAXuVZnsnZ3/LFXr7SzkK0SYAsUslTjiy
        e1lxB42lrFgnEPkRz192uxEx4o3cNjO+XukPJ1j2CUogZDhZnZsC4sg0Fj4LkkIZ
        t3lwBZGzSD5cYw0EbD94A7zTCouhBP/5lJnMKYUCgYAHJXp2YmBlV4lYnbCJlrfh
        x3KQZ8GkEf2JAeimrZrUP4uIZY+hzlvGjYnNWFZnuC3SLTekjDtsBc3AMUBZbAqc
        YCNcnzJEP0lk36e5SqJC4CqZOab1LMgu8NEwydkOEC3dEzQwzs2zw1nyrO95bAmE
        je//i9ngqvAvs1jPxztOgA==
        -----END PRIVATE KEY-----
        """

    static var p256JWK: String {
        let point = Array(p256.publicKey.rawRepresentation)
        return #"{"kty":"EC","crv":"P-256","kid":"k1","use":"sig","x":"\#(Base64URL.encode(point[..<32]))","#
            + #""y":"\#(Base64URL.encode(point[32...]))"}"#
    }

    static var ed25519JWK: String {
        #"{"kty":"OKP","crv":"Ed25519","kid":"ed","x":"\#(Base64URL.encode(Array(ed25519.publicKey.rawRepresentation)))"}"#
    }

    /// `ed25519` in PKCS 8 (RFC 8410 section 7).
    static var ed25519PEM: String {
        let prefix: [UInt8] = [0x30, 0x2E, 2, 1, 0, 0x30, 5, 6, 3, 0x2B, 0x65, 0x70, 4, 0x22, 4, 0x20]
        let text = Data(prefix + Array(ed25519.rawRepresentation)).base64EncodedString()
        return "-----BEGIN PRIVATE KEY-----\n\(text)\n-----END PRIVATE KEY-----\n"
    }

    /// Signs header and claims, both JSON texts, with a P-256 key.
    static func es256(
        _ claims: String, header: String = #"{"alg":"ES256","kid":"k1","typ":"JWT"}"#,
        key: P256.Signing.PrivateKey = p256
    ) throws -> String {
        let input = Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
        let signature = try key.signature(for: Data(input.utf8))
        return input + "." + Base64URL.encode(Array(signature.rawRepresentation))
    }

    static func edDSA(_ claims: String, header: String = #"{"alg":"EdDSA","kid":"ed"}"#) throws -> String {
        let input = Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
        return input + "." + Base64URL.encode(Array(try ed25519.signature(for: Data(input.utf8))))
    }
}
