/// RSA keys for the emulator.
///
/// The keys are published on purpose and protect nothing. They are fixed, because tests start many sandboxes, and making RSA keys
/// each time would slow them down.
enum RSATestKeys {
    /// The modulus and private values of one key, in base64url; the public exponent is 65537.
    struct RSANumbers: Sendable {
        let modulus: String
        let privateExponent: String
        let prime1: String
        let prime2: String
    }

    static let all: [RSANumbers] = [
        RSANumbers(
            modulus:
                "w8j0dP3Zy6tUjju183Z-sTmbxRX8SmcswHA85jN2EaM4ammyTb7tqMlj6q2c8Yu6Ya66T1wGyFLkmy9wZQeetjfQ2dDJCqtL"
                + "LafkygeAVAeGfB3tSBN2K-v2_gRDwEVLs7Vve8Ucn8YRK5NiUDObeEjLvuIxZn_GuBx92M0B4BDvXK7CQfHfNrqHxaEE-D6P"
                + "fQc6l2YD3VrYdmQcp4Xb29ZRzV1XGQ7JNf6X-TinQda5noloFqgzv1S8_ves-xkHfmaK9U1YvK0gI-WV1zQom_CPnL_NckZ_"
                + "TD-4rMAF4O9h8QrRZeiAgxvKJ3eUGGbqzjlDLmXGdbccGNirPujAFQ",
            privateExponent:
                "EjP0oIz6izBkhe3gyqBNgrJBvJcA9DT4CPNWgiuuMlEb3W7y1D4ocA07ZDYclauhWlQpv9elTMpCNXh5aXdGJxh06095ZavL"
                + "61SFFdCROp7Rfug0Z8NhdQ91ESR53R5EPdLkaNxIf0Vl0sia9yx5K7uO7_ItWCOQqQ0DGV1kK34V7HE4HD5ldkAXEh2WAefB"
                + "wj0UEaQO-JGJdzsX2TiJy66ZZTSsxYxxYtG2BTcq-XmPjDRxWbppyM58IJ12ZqavKw9kfr469zQhHDm5MyqHZmWPU_dU2L7I"
                + "4zjSAS7LpaWBfNavSEuRtx7tIQ9zNz6MVKJncczi6g7wGZ3NlszZQQ",
            prime1:
                "6XcacdbSLp2u3AKV4qA-iJMCPSwdNEtNww20GRe8KAGdr3WhmG7-zwNTyDUknwDiXmjj1NZI7j5h_2IFal_M6pMAAXMIlwSt"
                + "yHjTvQZ-Ez8WpgmL8c_6fOIaZFx8x5dR7t1fINtWpvFmM0Hd0jHihmWXLdp6JCOjcg4OdgBSw0E",
            prime2:
                "1q7G6CxrBbNwQl9T8FD5A6s0kWnkgkftl8mG058QjCaV5r0cB9fA-SsG9FIpItpYVmNI2T_mH9xWc9Uy6yksjBk5dEE2Hd45"
                + "1VZbJ0p_10pjTFvPsdO91FiozT1FNvAGX4P3TyeEpYmoYvqgCZFSwqim9B4ueAaQOmuCbfAIi9U"),
        RSANumbers(
            modulus:
                "yMz5pkBYJTc3CFUwGYztMcGM_Esx12rEFb5gPOxWwltHF5A4WPNW7NsFXdTOiF1XuYjjN_51gREKmFcTRwR-jIY7c2wraMMo"
                + "bNdgPswzQOjeArdMpXmybdTcn-xNf7Iec2tGPvduialAWx4HsofQqYN2qtD-V4HcPmuP9oUBaImf1VQtdpIlw9vsPjmQhE8y"
                + "Wdz1jLlRks8EJ8xjhZFSQg8tQxiWb7gSflkkg1FYXCtmEhxWiMXrMHykvpEB32JE6YH0YEz8Io9FfnOsFbiEPWd0R1hpNovN"
                + "sckvjYn_x_NpIejzdt0Zqte94KN5WltOUkZWUBzn4ejkKFc4sEh6zw",
            privateExponent:
                "Ji-Mvkf4O0OPzJ7eoc1CAjdLh2MJXGzqUzQ7-vn62cUf9OQxQwEro6lXEOv6RsZxe1AD3c8fK2dBO407lkLNig2w2pdUffy3"
                + "AFPI8shEavCd36haBBHrk6VqO2NlrYYC8nIRDsJhG_66xVkln5biYIomk_9gjuWcK6aq3veWN_m10XicP9s-k3nmf6FbxTfH"
                + "LjCB8fWv82wb4wC74J66WzCwiqfrzTaHt4fyjxgtVnqsJR20BSQ6rizbCp3-J0aaa7CEgAVD655y3Aqjql_S-gVH9xJJ0unx"
                + "z7JOli_DBNAcYDaUZ732tHRDWAbk7zayJU_XeiCqpNbkblgw1ll0OQ",
            prime1:
                "58URqQuGPIsxx0aipPuMvF1eKyJv2uTas9d89_VXNXfq6TDgLedqpjzLKKAEwjn_TEW9UZHyaga4j09N0QTzHxKQhWK2d-in"
                + "iCABlZmrNleLK4D6DnFa1JkY1LoN38eTuoU7YNyG_ODsdMS9DxOtnEHFP2k9ep09WFDLOH0lumU",
            prime2:
                "3csR0h1KGYS861GaLYUc1Qy_3HYAtbzN2uExOkdbOYci-jMI-GB8z9tuwpQEYG0lXwEvR59L9Z8FukkOTZBT9UEub5NAx8mK"
                + "GtxPNy9susmxmc0UiHgrBZe19OR8SP01Mye4OHvYo9tBlOYJhSlqWv3qQ0AEUqMQijGgRVQ4kyM"),
        RSANumbers(
            modulus:
                "2dN68xMg7Hbsej8o8EEqQOTMH9J7nMWHo0PWwhhiszqhhMgibLOTuhl0_G5Fw5W-4aWMibAih0-UTjwSZBB1e88mfM39-1Hs"
                + "lLCBxM_7_4pF6GLgFUz0YHenr40m3E_FWCW6MhFd1zsHelxocdjQz0DVYl7pVyJoDONNUDwMf29ZP01xqxmt4elQqWYmINdS"
                + "_DAYHhI3_hp2WPo71PkOR0ZrLf6OxgxE1uxjHgqswz8WJgiiVArTuTSMivFhYNIKSWloQJnxUAoWrU-aIr8XMyjrLghzyW1t"
                + "LGYmJQXVUZm8x7NDwTJyMQI_TITDAd46Q3NWJtwlxRvRiHYlKLsUTw",
            privateExponent:
                "Aoi0FKfTgwZPJSaFWP_Cq6z9th3b7XlbmDA6pPKYeb7kEIgtF_HVQh3E5dR4-bGARJFWDs2YJgk5XHLU2lbARyE9yi3k5Bhf"
                + "Fcu7EFZEqp0p-wex1UDNhvtdXZ_ZJK744lgHnOJLosYl0oXIrhDFPRcv_eXEwr-JUYnc_sknP0Q_pWooTgUUm4FphhWFTPYq"
                + "XTdg6PWPLEDYtR3sWVGP-bAopMpomDT5_Cq3IpDXeYitwuy-a1u0jZ66ICzHqEQHL-F3dmkVo-c37lrLV5npFQl-cn61thCw"
                + "SgeSrlJayjhA84Li9i2wd3AimAF2lhHZHu14nwBRTHaHJIh0D1-ToQ",
            prime1:
                "9D4h7dd2ByioftiSoix2X4hqPpLV-30x2CFTAjyWM6OFRyLFCWOryHHnkqQZDNCKv6hxqVz7eQXPEtOrVjYzy1e_QacMrqwr"
                + "Cr0L0V5lraJhid1Sz9LMJ-kkwA6fJHDheK2KDspQQm7BJTgnnODyHkJTlcJyt66Xz_19tish_uM",
            prime2:
                "5E_PEVUwVauuV33fiqSB8x9gZro4syoi2xLGKXa0FOoW2u109Zjq5dld9rpr-FWBzeS04DefXgQ5xl_M8y0kNH-MSQZuFS3s"
                + "zVubDhLnjeosBOlv_03u6yqWlURByNx5atz4BiJzbj0VK8Lzg8RejAeBrsXgVJM3T8JxYmxkxKU"),
    ]
}
